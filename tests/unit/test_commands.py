"""The door into the core: what a type checker sees is what a caller gets."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType, NoneType

import pytest

from airflow_provider_schemamig import config
from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter

PACKAGE = Path(config.__file__).parent
#: Verbs that no task of Airflow runs, and why.
NOT_IN_AIRFLOW = {
    "cluster_status": "to be read by a person",
    "compact_ledger": "commit and cleanup do what is due",
    "compare_and_evolve_schema": "for programs",
    "deployment_document": "to be read by a person",
    "diff": "about files: a workflow runs the command line",
    "drift_document": "to be read by a person",
    "dump_ledger": "to be read by a person",
    "edit_row": "mends a damaged ledger, with a person looking on",
    "fetch_jars": "once a machine, when it is set up",
    "follow": "a loop in one process; in Airflow a task is deferred",
    "go_through": "all tasks after preflight in one process",
    "history_document": "to be read by a person",
    "init_release": "written by a person",
    "last_failure": "to be read by a person",
    "ledger_size": "to be read by a person",
    "load_checked": "about files: a workflow runs the command line",
    "new_release": "written by a person",
    "plan_alter": "the operator's plan is the approval's",
    "read_history": "to be read by a person",
    "rebase_release": "written by a person",
    "rebuild_ledger": "mends a lost ledger, with a person looking on",
    "refresh": "a waiting stream's trigger does it",
    "rehearsal": "about files: a workflow runs the command line",
    "restore_all": "a task restores one collection, so that one that fails holds no other up",
    "restore_ledger": "mends a lost ledger, with a person looking on",
    "review": "about files: a workflow runs the command line",
    "rollback_document": "to be read by a person",
    "run_all": "about files: a workflow runs the command line",
    "schema_age": "to be read by a person",
    "schema_status": "to be read by a person",
    "snapshot_release": "written by a person",
    "stream_states": "a waiting stream's trigger reads its own",
    "table_document": "to be read by a person",
    "upgrade": "all tasks in one process",
    "upgrade_ledger": "once a format, after all programs have been renewed",
    "verified_jars": "once a machine, when it is set up",
    "verify_ledger": "to be read by a person",
    "wake": "a waiting stream's trigger does it",
    "write_fixtures": "about files: a workflow runs the command line",
}


def test_every_verb_is_the_function_that_the_type_checker_was_told_of() -> None:
    declared = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(ast.parse(Path(str(commands.__file__)).read_text()))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("airflow_provider_schemamig")
        for alias in node.names
    }
    assert set(declared) == set(commands.__all__)
    for verb, (module, name) in declared.items():
        found = getattr(commands, str(verb))
        assert (found.__module__, found.__name__) == (module, name)


#: Functions that shape what a verb gives or takes: they read nothing and change nothing.
SHAPES = {
    "back_to", "blocked", "collection_name", "complete", "control_json", "control_words", "document", "entry_json", "failures",
    "jars_folder", "minute_of", "once", "once_each",
    "pin_json", "reasons_to_ask", "report_html", "set_fingerprint", "size", "still_words", "stream_json", "user_name",
    "workplace",
}  # fmt: skip


@pytest.mark.parametrize("folder", ["cli/commands", "operators", "sensors"])
def test_nobody_goes_round_the_door(folder: str) -> None:
    """Beside ``commands`` they take types, errors and constants from the core, and what shapes a document."""
    round_it = [
        f"{path.relative_to(PACKAGE)}: {node.module}.{alias.name}"
        for path in (PACKAGE / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("airflow_provider_schemamig.core")
        for alias in node.names
        if (
            isinstance(found := getattr(import_module(str(node.module)), alias.name, None), FunctionType | ModuleType | NoneType)
            or found in (LedgerReader, LedgerWriter)
        )
        and found is not commands
        and alias.name not in SHAPES
    ]
    assert round_it == []


def test_every_verb_has_a_task_in_airflow_or_a_reason() -> None:
    files = [path for folder in ("operators", "sensors", "triggers") for path in (PACKAGE / folder).glob("*.py")]
    used = {
        node.attr
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "commands"
    }
    assert used.isdisjoint(NOT_IN_AIRFLOW)
    assert used | set(NOT_IN_AIRFLOW) == set(commands.__all__)


@pytest.mark.parametrize("module", ["control", "drift", "ledger"])
def test_an_operator_runs_one_verb_and_is_named_after_it(module: str) -> None:
    found = {}
    for kind in ast.parse((PACKAGE / "operators" / f"{module}.py").read_text()).body:
        if isinstance(kind, ast.ClassDef):
            named = {node.attr for node in ast.walk(kind) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "commands"}
            found[kind.name] = {"".join(word.capitalize() for word in name.split("_")) + "Operator" for name in named}
    for base in ("ControlledOperator", "ReasonedOperator"):
        found.pop(base, None)
    assert found == {name: {name} for name in found}
