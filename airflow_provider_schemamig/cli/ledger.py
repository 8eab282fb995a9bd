"""``schemamig ledger ...``: the ledger as a whole, for operators and for bug reports (DESIGN section 4)."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_provider_schemamig.cli.options import EnvOption, JsonOption, ReleaseOption, local_path, open_environment, table_named
from airflow_provider_schemamig.cli.output import Answer, Exit, answered
from airflow_provider_schemamig.exceptions import Refusal, SchemamigError

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_provider_schemamig.core.ledger.admin.backup import Backup, Restored
    from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter

app = typer.Typer(no_args_is_help=True, help="Look at an environment's ledger, keep it, repair it.")
LOOK = "Look"
REPAIR = "Repair"
KEEP = "Keep"
_FORMATS = ("table", "jsonl", "csv")
CollectionOption = Annotated[str, typer.Option("--collection", metavar="NAME", help="The ledger's collection: objects, shards, ...")]
KeyOption = Annotated[str, typer.Option("--key", metavar="KEY", help="The row's key, as `ledger dump` prints it or without its quotes.")]
ExpectOption = Annotated[
    int | None, typer.Option("--expect", metavar="VERSION", help="Only if the row is still as it was at this ledger version.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Even if somebody seems to be at work, or verify would find something new.")]
Folder = Annotated[str, typer.Argument(metavar="FOLDER", help="The backup's folder: a URI or a plain path.")]


@dataclass(eq=False)
class LedgerUnsound(Refusal):
    """``ledger verify`` found something; the findings are in the same document."""

    code = "ledger_unsound"
    findings: int

    @property
    def message(self) -> str:
        return f"the ledger has {self.findings} finding(s)."

    @property
    def next_action(self) -> str:
        return "Stop upgrades of this environment, make a backup, and do what each finding says (docs/ledger.md)."


@app.command(rich_help_panel=LOOK)
def dump(
    env: EnvOption,
    collection: Annotated[str | None, typer.Option("--collection", metavar="NAME", help="Only this one: objects, shards, ...")] = None,
    as_of: Annotated[int | None, typer.Option("--as-of", metavar="VERSION", help="The ledger as it was at this version.")] = None,
    current: Annotated[bool, typer.Option("--current", help="Only the rows that stand, not every update that led to them.")] = False,
    format_: Annotated[str, typer.Option("--format", metavar="FORMAT", help="table, jsonl (to paste from), or csv (for SQL).")] = "table",
    as_json: JsonOption = False,
) -> None:
    """The stored updates: collection, key, value, time (ledger version) and difference."""
    if format_ not in _FORMATS:
        raise typer.BadParameter(f"{format_!r} is not one of {', '.join(_FORMATS)}.", param_hint="'--format'")
    if as_json and format_ != "table":
        raise typer.BadParameter("--json is one document, --format is for a file: choose one.", param_hint="'--format'")
    _dump(env=env, collection=collection, as_of=as_of, current=current, format_=format_, as_json=as_json)


@answered
def _dump(*, env: str, collection: str | None, as_of: int | None, current: bool, format_: str, as_json: bool) -> Answer:
    from airflow_provider_schemamig.core.ledger.admin import maintenance

    document = maintenance.dump(_reader(env), as_of, collection=collection, current=current)

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli import render_ledger

        match format_:
            case "jsonl":
                render_ledger.write_jsonl(to.file, document)
            case "csv":
                render_ledger.write_csv(to.file, document)
            case _:
                render_ledger.show_dump(to, document, current=current)

    return Answer(document, show)


@app.command(rich_help_panel=LOOK)
@answered
def verify(env: EnvOption, as_json: JsonOption = False) -> Answer:
    """Check everything that must hold: files, rows, between rows, and whether tables and plans are there. Exit 1 with the findings."""
    from airflow_provider_schemamig.core.ledger.admin import verify as ledger
    from airflow_provider_schemamig.core.ledger.admin import verify_tables as tables

    reader = _reader(env)
    found = ledger.verify(reader)
    if not any(finding.key is None for finding in found):  # rows cannot be read where files cannot
        try:
            found += tables.verify_tables(reader)
        except SchemamigError:
            if not found:
                raise  # otherwise what was found is what to begin with
    findings = [finding.to_json() for finding in found]
    document: dict[str, Any] = {"findings": findings}
    if findings:
        document["error"] = LedgerUnsound(findings=len(findings)).to_json()

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render_ledger import show_findings

        show_findings(to, findings)

    return Answer(document, show, Exit.REFUSED if findings else Exit.DONE)


@app.command(rich_help_panel=LOOK)
@answered
def size(env: EnvOption, as_json: JsonOption = False) -> Answer:
    """How much the ledger stores, of what, how it grew from release to release, and what `compact` would take away."""
    from airflow_provider_schemamig.core.ledger.admin import size as sizes

    document = sizes.size(_reader(env)).to_json()

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render_ledger import show_size

        show_size(to, document)

    return Answer(document, show)


@app.command(rich_help_panel=LOOK)
@answered
def epoch(env: EnvOption, as_json: JsonOption = False) -> Answer:
    """Which generation leads, and in which epoch."""
    leader = _reader(env).state().leader
    generation, number = (leader.generation, leader.epoch) if leader is not None else (None, 0)
    return _facts({"generation": generation, "epoch": number})


@app.command(rich_help_panel=KEEP)
@answered
def upgrade(env: EnvOption, as_json: JsonOption = False) -> Answer:
    """Bring the ledger to this software's format. Older software is refused here afterwards."""
    from airflow_provider_schemamig.core.upgrade.ledger_format import upgrade_ledger

    document = upgrade_ledger(open_environment(env)).to_json()

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render_format import show_format_upgrade

        show_format_upgrade(to, document)

    return Answer(document, show)


@app.command(rich_help_panel=KEEP)
@answered
def compact(env: EnvOption, as_json: JsonOption = False) -> Answer:
    """Sum the history up to now into one file. Looking further back is refused afterwards."""
    from airflow_provider_schemamig.core.ledger.admin import maintenance

    state = maintenance.compact(_writer(env))
    return _facts({"version": state.version, "since": state.since})


@app.command(rich_help_panel=REPAIR)
@answered
def edit(
    env: EnvOption,
    collection: CollectionOption,
    key: KeyOption,
    value: Annotated[str, typer.Option("--value", metavar="JSON", help="The row, as dump prints it; - reads it from standard input.")],
    expect: ExpectOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> Answer:
    """Write one row by hand: insert it, or replace what is there. Run `backup` first."""
    return _edited(env, collection, key, _text_of(value), expect, force)


@app.command(rich_help_panel=REPAIR)
@answered
def delete(
    env: EnvOption,
    collection: CollectionOption,
    key: KeyOption,
    expect: ExpectOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> Answer:
    """Take one row away by hand; nothing to do if it is not there. Run `backup` first."""
    return _edited(env, collection, key, None, expect, force)


@app.command(rich_help_panel=KEEP)
@answered
def backup(env: EnvOption, folder: Folder, as_json: JsonOption = False) -> Answer:
    """Copy the ledger and its plans to FOLDER, byte for byte."""
    from airflow_provider_schemamig.core.ledger.admin import backup as backups

    done = backups.backup(open_environment(env), folder)
    return _kept(folder, done)


@app.command(rich_help_panel=KEEP)
@answered
def restore(env: EnvOption, folder: Folder, as_json: JsonOption = False) -> Answer:
    """Bring the backup in FOLDER to an environment that has no ledger. Nothing is ever overwritten."""
    from airflow_provider_schemamig.core.ledger.admin import backup as backups

    done = backups.restore(open_environment(env), folder)
    return _kept(folder, done)


@app.command(rich_help_panel=KEEP)
@answered
def rebuild(
    env: EnvOption,
    release: ReleaseOption,
    table: Annotated[
        list[str] | None, typer.Option("--table", metavar="NAME=URI", help="A collection's table, where it cannot be told; several times.")
    ] = None,
    as_it_is: Annotated[
        list[str] | None,
        typer.Option("--as-it-is", metavar="NAME", help="A collection whose table you looked at after `end_unknown`; several times."),
    ] = None,
    as_json: JsonOption = False,
) -> Answer:
    """Make a ledger that was lost without a backup anew, from the tables and the release that the environment was at."""
    from airflow_provider_schemamig.core.upgrade.rebuild.rebuild import rebuild as make_anew

    root = open_environment(env)
    done = make_anew(root, local_path(release), [table_named(text) for text in table or ()], as_it_is or ())
    document = done.to_json(root)

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render import show_facts, show_notes

        show_facts(to, {name: value for name, value in document.items() if name not in ("notes", "tables")})
        for found in document["tables"]:
            to.print(f"{found['collection']}: {found['uri']}", markup=False)
        show_notes(to, done.notes)

    return Answer(document, show)


def _edited(env: str, collection: str, key: str, value: str | None, expect: int | None, force: bool) -> Answer:
    from airflow_provider_schemamig.core.ledger.admin.edit import RowEdit, edit_row

    done = edit_row(open_environment(env), RowEdit(collection, key, value, expect, force), getpass.getuser())

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render_ledger import show_edit

        show_edit(to, document)

    document = done.to_json()
    return Answer(document, show)


def _text_of(value: str) -> str:
    """``-``: a value may be longer than a command line."""
    return sys.stdin.read() if value == "-" else value


def _kept(folder: str, done: Backup | Restored) -> Answer:
    document = {"uri": _uri(folder), **asdict(done)}

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render import show_facts, show_notes

        show_facts(to, {name: value for name, value in document.items() if name != "notes"})
        show_notes(to, done.notes)

    return Answer(document, show)


def _reader(env: str) -> LedgerReader:
    from airflow_provider_schemamig.core.ledger.store import LedgerReader

    return LedgerReader(open_environment(env))


def _writer(env: str) -> LedgerWriter:
    from airflow_provider_schemamig.core.ledger.store import LedgerWriter

    return LedgerWriter(open_environment(env))


def _uri(folder: str) -> str:
    return open_environment(folder).location.uri


def _facts(document: Mapping[str, Any]) -> Answer:
    """A few values by name."""

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render import show_facts

        show_facts(to, document)

    return Answer(document, show)
