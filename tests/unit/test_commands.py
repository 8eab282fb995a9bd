"""The door into the core: what a type checker sees is what a caller gets."""

from __future__ import annotations

import ast
from pathlib import Path

from airflow_provider_schemamig.core import commands


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
