"""docs/steps.md has every parameter of every step, and its statements are what it says they are."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import get_args

import pytest
import typer

import airflow_provider_schemamig
from airflow_provider_schemamig.cli.main import app
from airflow_provider_schemamig.core.release.sql.alter.statement import Alter, read_alteration
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.schema.changes import Change, Cost
from airflow_provider_schemamig.core.schema.diff.compare import diff

PAGE = (Path(__file__).parents[3] / "docs" / "steps.md").read_text()
STEPS = sorted(airflow_provider_schemamig.__all__)
SCHEMA = """
CREATE TABLE flights (id BIGINT, origin STRING, tailnum STRING, delay DOUBLE);
CREATE TABLE planes (tailnum STRING NOT NULL, PRIMARY KEY (tailnum));
"""


def rows(heading: str, header: str) -> list[list[str]]:
    """The cells of the table with that header below a heading."""
    section = re.split(r"^## ", PAGE.split(f"## {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    table = section.split(header, 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


@pytest.mark.parametrize("step", STEPS)
def test_every_parameter_of_a_step_with_its_default(step: str) -> None:
    told = [(name.strip("`"), default.strip("`")) for name, default, _ in rows(step, "| parameter ")]
    parameters = inspect.signature(getattr(airflow_provider_schemamig, step)).parameters.values()
    assert told == [(item.name, "" if item.default is item.empty else repr(item.default)) for item in parameters]


def test_every_online_operation_has_a_statement_that_makes_it() -> None:
    declared = {found.name: found for found in parse_schema(SCHEMA, "schema.sql")}
    told = rows("Online operations", "| change ")
    for op, _, statement in told:
        found = read_alteration(statement.strip("`"), declared)
        assert isinstance(found, Alter)
        (change,) = diff(declared[found.collection], found.new, found.renames).changes
        assert (f"`{change.op}`", change.cost) == (op, Cost.ONLINE)
    always = {change.op for change in get_args(Change) if getattr(change, "cost", None) is Cost.ONLINE}
    assert {op.strip("`") for op, *_ in told} == always | {"add_column", "change_type", "change_clustering"}


def test_every_option_that_steers_them() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    told = rows("Online operations", "| command ")
    assert [name.strip("`") for name, *_ in told] == ["throttle", "pause", "postpone", "force", "resume"]
    for name, options, _ in told:
        known = {option for item in commands[name.strip("`")].params for option in item.opts} - {"--env", "--json", "--help"}
        assert set(re.findall(r"--[a-z-]+", options)) | {"--collection"} == known
