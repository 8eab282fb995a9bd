"""Spark's own functions, asked of Spark: ``core/schema/expressions/spark/functions.tsv`` is written from this.

After another Spark: ``python -m tests.support.spark.functions`` writes the file anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.schema.expressions.spark.functions import FILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_MANY = 60
#: Groups whose functions give one type, whatever they are given.
_OF_ONE_TYPE = ("bitwise_funcs", "csv_funcs", "datetime_funcs", "hash_funcs", "json_funcs", "predicate_funcs", "string_funcs", "url_funcs")
_EXAMPLE = re.compile(r"> (SELECT .*?);\s*$", re.MULTILINE)
_ARITY = re.compile(r"requires (?:\[([\d, ]+)\]|(\d+)|> (\d+)) parameters")


def names_and_kinds(spark: SparkSession) -> dict[str, str]:
    """name -> ``row``, ``aggregate``, ``window``, ``rows`` (gives several rows) or ``table``; no statement is analyzed."""
    return {str(info.getName()): _kind(spark, info) for info in _infos(spark)}


def lines(spark: SparkSession) -> Iterator[str]:
    """The file's lines, sorted by name."""
    for info in sorted(_infos(spark), key=lambda info: str(info.getName())):
        least, most = _arity(spark, info.getName())
        examples = list(_examples(spark, info))
        kind = _kind(spark, info)
        kind = "random" if kind == "row" and not all(deterministic for _, deterministic in examples) else kind
        types = {found for found, _ in examples}
        gives = types.pop() if info.getGroup() in _OF_ONE_TYPE and len(types) == 1 else "any"
        yield "\t".join((info.getName(), kind, str(least), str(most), gives))


def _infos(spark: SparkSession) -> list[Any]:
    return list(spark._jvm.org.apache.spark.sql.api.python.PythonSQLUtils.listBuiltinFunctionInfos())  # type: ignore[union-attr]


def _kind(spark: SparkSession, info: Any) -> str:
    """By its group, and by its class where that says more: some groups are named by their subject."""
    group = info.getGroup()
    named = {"agg_funcs": "aggregate", "window_funcs": "window", "generator_funcs": "rows", "table_funcs": "table"}.get(group)
    if named is not None:
        return named
    of = spark._jvm.java.lang.Class.forName  # type: ignore[union-attr]
    here = of(info.getClassName())
    for kind, parents in (
        ("aggregate", ("aggregate.AggregateFunction", "RuntimeReplaceableAggregate", "aggregate.TypedImperativeAggregate")),
        ("rows", ("Generator",)),
        ("window", ("WindowFunction",)),
    ):
        if any(_class(of, parent).isAssignableFrom(here) for parent in parents):
            return kind
    return "row"


def _class(of: Any, name: str) -> Any:
    try:
        return of(f"{_EXPRESSIONS}.{name}")
    except Exception:  # noqa: BLE001 - py4j gives no class of its own for a class that is not there
        return of(f"{_EXPRESSIONS}.aggregate.{name}")


def _arity(spark: SparkSession, name: str) -> tuple[int, int]:
    """Least and most arguments; 0 and a large number where Spark takes any."""
    try:
        spark.sql(f"SELECT `{name}`({', '.join(['NULL'] * _MANY)})")
    except Exception as error:  # noqa: BLE001 - the error is the answer
        found = _ARITY.search(str(error))
        if found is not None and found[3] is None:
            numbers = [int(number) for number in (found[1] or found[2]).split(",")]
            return min(numbers), max(numbers)
    return 0, _MANY


def _examples(spark: SparkSession, info: Any) -> Iterator[tuple[str, bool]]:
    """Of each example in Spark's documentation that it can analyze alone: the type it gives, and whether it is deterministic."""
    for example in _EXAMPLE.findall(info.getExamples())[:3]:
        try:
            found = spark.sql(example)
            fields = found.schema.fields
        except Exception:  # noqa: BLE001 - examples over tables that are not there
            continue
        if len(fields) == 1:
            yield (
                fields[0].dataType.simpleString().partition("<")[0].partition("(")[0],
                found._jdf.queryExecution().analyzed().deterministic(),
            )


def main() -> None:
    from airflow_provider_schemamig.core.spark.session import embedded_session

    text = "".join(f"{line}\n" for line in lines(embedded_session("local[1]")))
    Path(FILE).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
