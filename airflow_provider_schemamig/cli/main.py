"""The command ``schemamig``: what a person or a program calls from a shell.

Start-up is part of the contract (0.5 s for a plan in all), so the modules of this package import only Typer and the error tree at
module level; a command imports what it needs when it runs.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from airflow_provider_schemamig import __version__
from airflow_provider_schemamig.cli.commands.accept import accept
from airflow_provider_schemamig.cli.commands.adopt import adopt
from airflow_provider_schemamig.cli.commands.alter import alter
from airflow_provider_schemamig.cli.commands.approve import approve
from airflow_provider_schemamig.cli.commands.cancel import cancel
from airflow_provider_schemamig.cli.commands.change import change
from airflow_provider_schemamig.cli.commands.check import check
from airflow_provider_schemamig.cli.commands.cleanup import cleanup
from airflow_provider_schemamig.cli.commands.compact import compact
from airflow_provider_schemamig.cli.commands.contract import contract
from airflow_provider_schemamig.cli.commands.cutover import cutover
from airflow_provider_schemamig.cli.commands.diff import diff
from airflow_provider_schemamig.cli.commands.expand import expand
from airflow_provider_schemamig.cli.commands.fixtures import fixtures
from airflow_provider_schemamig.cli.commands.force import force
from airflow_provider_schemamig.cli.commands.history import history
from airflow_provider_schemamig.cli.commands.init import init
from airflow_provider_schemamig.cli.commands.jars import jars
from airflow_provider_schemamig.cli.commands.ledger.backup import backup as ledger_backup
from airflow_provider_schemamig.cli.commands.ledger.compact import compact as ledger_compact
from airflow_provider_schemamig.cli.commands.ledger.delete import delete as ledger_delete
from airflow_provider_schemamig.cli.commands.ledger.dump import dump as ledger_dump
from airflow_provider_schemamig.cli.commands.ledger.edit import edit as ledger_edit
from airflow_provider_schemamig.cli.commands.ledger.epoch import epoch as ledger_epoch
from airflow_provider_schemamig.cli.commands.ledger.rebuild import rebuild as ledger_rebuild
from airflow_provider_schemamig.cli.commands.ledger.restore import restore as ledger_restore
from airflow_provider_schemamig.cli.commands.ledger.size import size as ledger_size
from airflow_provider_schemamig.cli.commands.ledger.upgrade import upgrade as ledger_upgrade
from airflow_provider_schemamig.cli.commands.ledger.verify import verify as ledger_verify
from airflow_provider_schemamig.cli.commands.lint import lint
from airflow_provider_schemamig.cli.commands.new import new
from airflow_provider_schemamig.cli.commands.pause import pause
from airflow_provider_schemamig.cli.commands.pin import pin
from airflow_provider_schemamig.cli.commands.plan import plan
from airflow_provider_schemamig.cli.commands.postpone import postpone
from airflow_provider_schemamig.cli.commands.preflight import preflight
from airflow_provider_schemamig.cli.commands.promote import promote
from airflow_provider_schemamig.cli.commands.rebase import rebase
from airflow_provider_schemamig.cli.commands.replicate import replicate
from airflow_provider_schemamig.cli.commands.report import report
from airflow_provider_schemamig.cli.commands.resume import resume
from airflow_provider_schemamig.cli.commands.revert import revert
from airflow_provider_schemamig.cli.commands.rollback import rollback
from airflow_provider_schemamig.cli.commands.schema.diff import diff as schema_diff
from airflow_provider_schemamig.cli.commands.schema.refresh import refresh as schema_refresh
from airflow_provider_schemamig.cli.commands.schema.status import status as schema_status
from airflow_provider_schemamig.cli.commands.snapshot import snapshot
from airflow_provider_schemamig.cli.commands.status import status
from airflow_provider_schemamig.cli.commands.tail import tail
from airflow_provider_schemamig.cli.commands.test import test
from airflow_provider_schemamig.cli.commands.throttle import throttle
from airflow_provider_schemamig.cli.commands.unmanage import unmanage
from airflow_provider_schemamig.cli.commands.unpin import unpin
from airflow_provider_schemamig.cli.commands.upgrade import upgrade
from airflow_provider_schemamig.cli.commands.verify import verify
from airflow_provider_schemamig.cli.usage import BlankingGroup, Command, CommandGroup

_Panels = dict[str | None, Sequence[Callable[..., None]]]

#: Every command, in the order and under the headings of ``--help``.
COMMANDS: _Panels = {
    "Write a release": (
        init,
        snapshot,
        check,
        diff,
        new,
        rebase,
        lint,
        fixtures,
        test,
    ),
    "Upgrade an environment": (
        plan,
        upgrade,
        rollback,
        alter,
    ),
    "One task at a time (what the DAG runs)": (
        preflight,
        approve,
        promote,
        expand,
        change,
        cutover,
        cleanup,
        contract,
        tail,
        cancel,
    ),
    "Existing tables, and drift": (
        adopt,
        unmanage,
        accept,
        revert,
    ),
    "While rows are copied": (
        pause,
        postpone,
        force,
        resume,
        throttle,
        pin,
        unpin,
    ),
    "Keep an environment": (
        compact,
        replicate,
        verify,
    ),
    "This machine": (jars,),
    "Look": (
        status,
        history,
        report,
    ),
}
LEDGER: _Panels = {
    "Look": (
        ledger_dump,
        ledger_verify,
        ledger_size,
        ledger_epoch,
    ),
    "Keep": (
        ledger_upgrade,
        ledger_compact,
        ledger_backup,
        ledger_restore,
        ledger_rebuild,
    ),
    "Repair": (
        ledger_edit,
        ledger_delete,
    ),
}
SCHEMA: _Panels = {None: (schema_status, schema_diff, schema_refresh)}


def _register(group: typer.Typer, panels: _Panels) -> typer.Typer:
    for panel, commands in panels.items():
        for command in commands:
            group.command(rich_help_panel=panel, cls=Command)(command)
    return group


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"schemamig {__version__}\n")
        raise typer.Exit


def root(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    """Take the tables of a Delta lake from one release of their schemas to the next: checked first, online, with a way back."""


app = _register(
    typer.Typer(
        name="schemamig",
        cls=BlankingGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    ),
    COMMANDS,
)
app.callback()(root)
_SCHEMA_HELP = "Which environment has which schema, and which replication waits for it."
app.add_typer(
    _register(typer.Typer(cls=CommandGroup, no_args_is_help=True, help=_SCHEMA_HELP), SCHEMA),
    name="schema",
)
app.add_typer(
    _register(typer.Typer(cls=CommandGroup, no_args_is_help=True, help="Look at an environment's ledger, keep it, repair it."), LEDGER),
    name="ledger",
)


def main() -> None:
    """Run the command line: the entry point of the wheel."""
    # A short process that mostly imports: the default collector walks the same classes again and again while they are made, and once
    # more at the end. That was a quarter of a plan's start-up.
    gc.set_threshold(50_000, 20, 100)
    try:
        app()
    finally:
        gc.freeze()


if __name__ == "__main__":
    main()
