"""The command ``schemamig``: what a person or a program calls from a shell (DESIGN section 10, docs/cli.md).

Start-up is part of the contract (0.5 s for a plan in all), so the modules of this package import only Typer and the error tree at
module level; a command imports what it needs when it runs.
"""

from __future__ import annotations

import gc

import typer

from airflow_provider_schemamig.cli import (
    adopt,
    alter,
    author,
    compact,
    history,
    ledger,
    lint,
    rehearse,
    release,
    replicate,
    rows,
    schema,
    status,
    upgrade,
    verify,
)
from airflow_provider_schemamig.cli.usage import BlankingGroup

app = typer.Typer(
    name="schemamig",
    cls=BlankingGroup,
    help="Take the tables of a Delta lake from one release of their schemas to the next: checked first, online, with a way back.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(release.app)
app.add_typer(author.app)
app.add_typer(lint.app)
app.add_typer(rehearse.app)
app.add_typer(upgrade.app)
app.add_typer(alter.app)
app.add_typer(adopt.app)
app.add_typer(rows.app)
app.add_typer(compact.app)
app.add_typer(replicate.app)
app.add_typer(verify.app)
app.add_typer(status.app)
app.add_typer(schema.app, name="schema")
app.add_typer(history.app)
app.add_typer(ledger.app, name="ledger")


def main() -> None:
    """The entry point of the wheel."""
    # A short process that mostly imports: the default collector walks the same classes again and again while they are made, and once
    # more at the end. That was a quarter of a plan's start-up.
    gc.set_threshold(50_000, 20, 100)
    try:
        app()
    finally:
        gc.freeze()


if __name__ == "__main__":
    main()
