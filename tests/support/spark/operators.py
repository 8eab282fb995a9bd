"""What Spark's operators take and give, asked of Spark: ``python -m tests.support.spark.operators`` writes ``spark/operators.tsv`` anew."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_schemamig.core.schema.expressions.spark.operators import FILE, OPERATORS

#: One column of each kind.
COLUMNS = {
    "integral": "INT",
    "decimal": "DECIMAL(10, 2)",
    "double": "DOUBLE",
    "string": "STRING",
    "boolean": "BOOLEAN",
    "binary": "BINARY",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP_NTZ",
    "interval": "INTERVAL DAY TO SECOND",
    "array": "ARRAY<INT>",
    "map": "MAP<STRING, INT>",
    "struct": "STRUCT<q: INT>",
}
_GIVEN = {"byte": "integral", "short": "integral", "integer": "integral", "long": "integral", "float": "double", "void": "null"}


def lines(spark: SparkSession) -> Iterator[str]:
    """Operator, left, right (empty: it takes one) and what it gives, of all that Spark takes."""
    schema = ", ".join(f"c_{kind} {sql}" for kind, sql in COLUMNS.items())
    empty = spark.createDataFrame([], schema)
    kinds = (*COLUMNS, "null")
    for operator, form in OPERATORS.items():
        for left, right in itertools.product(kinds, kinds if "{right}" in form else ("",)):
            gives = _gives(empty, form.format(left=_operand(left), right=_operand(right)))
            if gives is not None:
                yield "\t".join((operator, left, right, gives))


def _operand(kind: str) -> str:
    return "NULL" if kind == "null" else f"c_{kind}"


def _gives(empty: DataFrame, expression: str) -> str | None:
    from pyspark.sql import functions

    try:
        name = empty.select(functions.expr(expression).alias("r")).schema[0].dataType.typeName()
    except PySparkException:
        return None
    name = name.partition("(")[0].partition(" ")[0]
    return _GIVEN.get(name, "interval" if name.startswith(("interval", "daytime", "yearmonth")) else name)


def main() -> None:
    from airflow_provider_schemamig.core.spark.session import embedded_session

    FILE.write_text("\n".join(lines(embedded_session("local[1]"))) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
