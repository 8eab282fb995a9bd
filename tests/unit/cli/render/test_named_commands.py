"""Commands that hints name have what the command line requires: who types one gets no usage error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from airflow_provider_schemamig.cli.main import app
from airflow_provider_schemamig.core.ledger.admin.findings import REMEDIES

TEXTS = Path(__file__).parents[2].joinpath("error_texts.txt").read_text()
#: They are given by where a command is run, or completed (``core.typed_commands``).
_COMPLETED = {"--env", "--release"}
#: What they are to change is said beside them, by the finding or the error: its row, and what is wrong with it.
_OF_A_ROW = {"ledger edit", "ledger delete"}


def test_commands_in_hints_have_what_they_require() -> None:
    lacking = {(found, name) for found, verb, rest in _commands() for name in _required(verb) if not _is_given(name, rest)}
    assert lacking == set()


def _commands() -> Iterator[tuple[str, str, str]]:
    hints = [line for line in TEXTS.splitlines() if line.startswith("      -> ")]
    assert hints
    for text in (*hints, *REMEDIES.values()):
        for found in re.finditer(r"`schemamig ((?:ledger |schema )?[a-z_]+)([^`]*)`", text):
            if found[1] not in _OF_A_ROW:
                yield found[0], found[1], found[2]


def _required(verb: str) -> list[str]:
    """The first option of what has to be given, and ``""`` where there is an argument."""
    command: Any = get_command(app)
    for word in verb.split():
        command = command.commands[word]
    required = [parameter for parameter in command.params if parameter.required]
    names = {parameter.opts[0] if parameter.param_type_name == "option" else "" for parameter in required}
    return sorted(names - _COMPLETED)


def _is_given(name: str, rest: str) -> bool:
    return name in rest.split() if name else bool(re.search(r" ['A-Z<]", re.sub(r" --\S+ \S+", "", rest)))
