"""What other programs rely on, word for word: ``contract.txt`` holds it, one fact a line.

A line that goes or changes breaks somebody's script, DAG or dashboard. ``python -m tests.unit.test_contract`` writes the file anew.
"""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any

import typer

import airflow_provider_schemamig
from airflow_provider_schemamig.cli.main import app
from airflow_provider_schemamig.cli.output import Exit
from airflow_provider_schemamig.core.upgrade.plan.stages import PLAN_KINDS, RUN_KINDS

ROOT = Path(__file__).parents[2]
CONTRACT = Path(__file__).with_name("contract.txt")
PACKAGE = Path(airflow_provider_schemamig.__file__).parent
#: What Airflow's DAG files import, and what its database and its providers' list name.
FACES = ("assets", "hooks", "notifications", "operators", "sensors", "task_groups", "triggers")


def test_contract_nothing_that_others_rely_on_changed() -> None:
    found, held = lines(), CONTRACT.read_text().splitlines()
    assert found == held, "\n".join(unified_diff(held, found, "contract.txt", "the code", lineterm="", n=0))


def lines() -> list[str]:
    parts = (commands, exit_codes, documents, error_codes, faces, dags, stage_kinds, package)
    return [line for part in parts for line in sorted(set(part()))]


def commands() -> Iterator[str]:
    yield from _commands(typer.main.get_command(app), "schemamig")


def _commands(group: Any, words: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{words} {name}")
        else:
            yield f"command {words} {name}"
            yield from _parameters(command, f"{words} {name}")
    yield from _parameters(group, words)


def _parameters(command: Any, words: str) -> Iterator[str]:
    for item in command.params:
        names = " ".join(sorted((*item.opts, *item.secondary_opts)))
        needed = " required" if item.required else ""
        several = " several" if getattr(item, "multiple", False) or item.nargs != 1 else ""
        known = f" from {item.envvar}" if item.envvar else ""
        yield f"command {words}: {item.param_type_name} {names}{needed}{several}{known}"


def exit_codes() -> Iterator[str]:
    yield from (f"exit {code.value} {code.name}" for code in Exit)


def documents() -> Iterator[str]:
    """The fields of every document; their types are in ``cli/schemas.json``."""
    schemas = json.loads((ROOT / "tests/unit/cli/schemas.json").read_text())["$defs"]
    for name, schema in schemas.items():
        yield from (f"json {name}: {path}" for path in _fields(schema, ""))


def _fields(schema: Any, path: str) -> Iterator[str]:
    if isinstance(schema, list):
        for item in schema:
            yield from _fields(item, path)
    elif isinstance(schema, dict):
        for field, inner in schema.get("properties", {}).items():
            yield f"{path}{field}"
            yield from _fields(inner, f"{path}{field}.")
        for key in ("items", "additionalProperties", "anyOf", "allOf", "oneOf"):
            yield from _fields(schema.get(key), path)


def error_codes() -> Iterator[str]:
    """Read and not imported: some are Airflow's face's."""
    for file in PACKAGE.rglob("*.py"):
        for found in ast.walk(ast.parse(file.read_text())):
            if isinstance(found, ast.ClassDef):
                yield from (f"error {code}" for code in _codes(found))


def _codes(found: ast.ClassDef) -> Iterator[str]:
    for line in found.body:
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant) and ast.unparse(line.targets[0]) == "code":
            yield str(line.value.value)


def faces() -> Iterator[str]:
    """Read and not imported: Airflow is not needed."""
    for folder in FACES:
        for file in sorted((PACKAGE / folder).glob("*.py")):
            where = ".".join((PACKAGE.name, folder, *([] if file.stem == "__init__" else [file.stem])))
            for node in ast.parse(file.read_text()).body:
                if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                    yield f"import {where}.{node.name}"


def dags() -> Iterator[str]:
    """Read and not imported: that Airflow finds these and no others is a matter of ``tests/integration/airflow/test_forms.py``."""
    for file in (ROOT / "dags").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "dag_id":
                yield from (f"dag {dag_id}" for dag_id in _dag_ids(ast.unparse(node.value)))


def _dag_ids(written: str) -> list[str]:
    """The ids of ``DAG(dag_id=...)``: itself, or one for each verb that has a form."""
    if written != "f'schemamig_{verb}'":
        return [ast.literal_eval(written)]
    tables = ast.parse((PACKAGE / "task_groups/verbs.py").read_text()).body
    (verbs,) = (node.value for node in tables if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "VERBS")
    assert isinstance(verbs, ast.Dict)
    return [f"schemamig_{ast.literal_eval(key)}" for key in verbs.keys if key is not None]


def stage_kinds() -> Iterator[str]:
    yield from (f"stage of a plan: {kind}" for kind in PLAN_KINDS)
    yield from (f"stage of a run: {kind}" for kind in RUN_KINDS)


def package() -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for group, found in {"scripts": project["scripts"], **project["entry-points"]}.items():
        yield from (f"entry point {group}: {name} = {target}" for name, target in found.items())
    yield from (f"import {PACKAGE.name}.{name}" for name in airflow_provider_schemamig.__all__)
    yield "import airflow_provider_schemamig.core.environment.Environment"


def test_the_environment_is_imported_from_its_place() -> None:
    from airflow_provider_schemamig.core.environment import Environment

    assert Environment.__module__ == "airflow_provider_schemamig.core.environment"


if __name__ == "__main__":
    CONTRACT.write_text("".join(f"{line}\n" for line in lines()))
