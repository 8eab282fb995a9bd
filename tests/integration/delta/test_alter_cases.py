"""Delta's own verdict on each change of a table's metadata, by Spark's ALTER TABLE and CREATE TABLE, against what is written down of it.

SCHEMAMIG_WRITE_VERDICTS=1 writes tests/unit/delta/metadata/alter_verdicts.txt anew.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_schemamig.core.delta.log.listing import commit_key
from tests.support.tables.alter_cases import cases
from tests.support.tables.alters import Altered, Created
from tests.unit.delta.metadata.test_alter_cases import DONE, VERDICTS, ours, verdicts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(1800)]

_CLASS = re.compile(r"\[([A-Z_0-9.]+)\]")


def said(spark: SparkSession, case: Altered | Created, folder: Path) -> str:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    table = f"delta.`{folder}`"
    if isinstance(case, Created):
        statements = [f"CREATE TABLE {table} {case.ddl}"]
    else:
        log = folder / commit_key(0)
        log.parent.mkdir(parents=True)
        log.write_text("\n".join(json.dumps(action) for action in case.base.actions()), encoding="utf-8")
        statements = [f"ALTER TABLE {table} {statement}" for statement in case.statements]
    for statement in statements:
        try:
            spark.sql(statement)
        except (PySparkException, Py4JError) as error:
            found = _CLASS.search(str(error)[:400])
            return found[1].partition(".")[0] if found else type(error).__name__
    return DONE


def test_delta_says_what_is_written_down(spark: SparkSession, tmp_path: Path) -> None:
    found = {case.name: said(spark, case, tmp_path / str(number)) for number, case in enumerate(cases())}
    if os.environ.get("SCHEMAMIG_WRITE_VERDICTS"):
        lines = [f"{case.name} | {found[case.name]} | {ours(case)}\n" for case in cases()]
        VERDICTS.write_text("".join(lines), encoding="utf-8")
    assert found == {name: verdict.delta for name, verdict in verdicts().items()}
