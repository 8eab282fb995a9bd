"""``schemamig ledger edit``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from airflow_provider_schemamig.cli.commands.ledger.row_edits import ExpectOption, ForceOption, KeyOption, LedgerCollectionOption, edited
from airflow_provider_schemamig.cli.options import EnvOption, JsonOption
from airflow_provider_schemamig.cli.output import Answer, answered


@answered
def edit(
    env: EnvOption,
    collection: LedgerCollectionOption,
    key: KeyOption,
    value: Annotated[str, typer.Option("--value", metavar="JSON", help="The row, as dump prints it; - reads it from standard input.")],
    expect: ExpectOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> Answer:
    """Write one row by hand: insert it, or replace what is there. Run `backup` first."""
    return edited(env, collection, key, _text_of(value), expect, force)


def _text_of(value: str) -> str:
    """Read the value from standard input if it is given as ``-``: a value may be longer than a command line."""
    return sys.stdin.read() if value == "-" else value
