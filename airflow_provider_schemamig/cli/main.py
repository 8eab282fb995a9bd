"""The command ``schemamig``: what a person or a program calls from a shell.

Start-up is part of the contract (0.5 s for a plan in all), so a command's module is imported when it is called or shown (``lazy``). At
module level these import only Typer and the error tree; a command imports what it needs when it runs.
"""

from __future__ import annotations

import gc
import sys
from typing import Annotated, Any

import typer

from airflow_provider_schemamig import __version__
from airflow_provider_schemamig.cli.lazy import LazyCommands, Panels
from airflow_provider_schemamig.cli.streams import guard_streams, why_stdout_was_lost
from airflow_provider_schemamig.cli.usage import BlankingGroup, CommandGroup

_PACKAGE = "airflow_provider_schemamig.cli.commands"
#: Every command, in the order and under the headings of ``--help``: each is the module of its name in ``commands``.
COMMANDS: Panels = {
    "Write a release": (
        "init",
        "snapshot",
        "check",
        "diff",
        "new",
        "rebase",
        "lint",
        "fixtures",
        "test",
    ),
    "Upgrade an environment": (
        "plan",
        "upgrade",
        "rollback",
        "alter",
    ),
    "One task at a time (what the DAG runs)": (
        "preflight",
        "approve",
        "reject",
        "promote",
        "expand",
        "change",
        "cutover",
        "cleanup",
        "contract",
        "tail",
        "cancel",
    ),
    "Existing tables, and drift": (
        "adopt",
        "unmanage",
        "accept",
        "revert",
    ),
    "While rows are copied": (
        "pause",
        "postpone",
        "force",
        "resume",
        "throttle",
        "pin",
        "unpin",
    ),
    "Keep an environment": (
        "compact",
        "replicate",
        "verify",
    ),
    "This machine": ("jars",),
    "Look": (
        "status",
        "history",
        "report",
    ),
}
LEDGER: Panels = {
    "Look": (
        "dump",
        "verify",
        "size",
        "epoch",
    ),
    "Keep": (
        "upgrade",
        "compact",
        "backup",
        "restore",
        "rebuild",
    ),
    "Repair": (
        "edit",
        "delete",
    ),
}
SCHEMA: Panels = {None: ("status", "diff", "refresh")}


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"schemamig {__version__}\n")
        raise typer.Exit


def root(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    """Take the tables of a Delta lake from one release of their schemas to the next: checked first, online, with a way back."""


class _Root(BlankingGroup):
    """``schemamig``."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": LazyCommands(_PACKAGE, COMMANDS, attributes["commands"])})


class _Schema(CommandGroup):
    """``schemamig schema``."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": LazyCommands(f"{_PACKAGE}.schema", SCHEMA, {})})


class _Ledger(CommandGroup):
    """``schemamig ledger``."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": LazyCommands(f"{_PACKAGE}.ledger", LEDGER, {})})


app = typer.Typer(name="schemamig", cls=_Root, no_args_is_help=True, pretty_exceptions_enable=False)
app.callback()(root)
#: Without a heading of their own they would stand before all others.
_GROUPS = "Groups of commands"
_SCHEMA_HELP = "Which environment has which schema, and which replication waits for it."
app.add_typer(typer.Typer(cls=_Schema, no_args_is_help=True, help=_SCHEMA_HELP), name="schema", rich_help_panel=_GROUPS)
_LEDGER_HELP = "Look at an environment's ledger, keep it, repair it."
app.add_typer(typer.Typer(cls=_Ledger, no_args_is_help=True, help=_LEDGER_HELP), name="ledger", rich_help_panel=_GROUPS)


def main() -> None:
    """Run the command line: the entry point of the wheel."""
    # A short process that mostly imports: the default collector walks the same classes again and again while they are made, and once
    # more at the end. That was a quarter of a plan's start-up. Hardly anything that it makes is a cycle: of 200,000 objects 160 were.
    gc.set_threshold(250_000, 20, 100)
    guard_streams()
    try:
        app()
    except SystemExit as ended:
        raise SystemExit(_code_of(ended)) from None
    finally:
        gc.freeze()


def _code_of(ended: SystemExit) -> str | int | None:
    """Return the exit code; that of a failure where the answer could not be written."""
    reason = why_stdout_was_lost()
    if reason is None:
        return ended.code
    from airflow_provider_schemamig.cli.output import AnswerNotWritten, console, failure

    lost = failure(AnswerNotWritten(reason=reason))
    lost.show(console(stderr=True))
    return ended.code or lost.exit_code


if __name__ == "__main__":
    main()
