"""``schemamig ledger ...``: the ledger as a whole, for operators and for bug reports (DESIGN section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_provider_schemamig.cli.options import EnvOption, JsonOption, open_environment
from airflow_provider_schemamig.cli.output import Answer, Exit, answered
from airflow_provider_schemamig.exceptions import Refusal

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter

app = typer.Typer(no_args_is_help=True, help="Look at an environment's ledger and keep it.")
LOOK = "Look"
KEEP = "Keep"
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
        return "Stop upgrades of this environment and restore a backup: `schemamig ledger restore` into an empty environment."


@app.command(rich_help_panel=LOOK)
@answered
def dump(env: EnvOption, as_json: JsonOption = False) -> Answer:
    """Every stored update: collection, key, value, time (ledger version) and difference."""
    from airflow_provider_schemamig.core.ledger import maintenance

    document = maintenance.dump(_reader(env))

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render_ledger import show_dump

        show_dump(to, document)

    return Answer(document, show)


@app.command(rich_help_panel=LOOK)
@answered
def verify(env: EnvOption, as_json: JsonOption = False) -> Answer:
    """Check everything that must hold between the ledger's rows. Exit 1 with the findings."""
    from airflow_provider_schemamig.core.ledger import verify as verification

    findings = [asdict(finding) for finding in verification.verify(_reader(env))]
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
    """How many versions, rows, files and bytes the ledger has."""
    from airflow_provider_schemamig.core.ledger import maintenance

    return _facts(asdict(maintenance.size(_reader(env))))


@app.command(rich_help_panel=LOOK)
@answered
def epoch(env: EnvOption, as_json: JsonOption = False) -> Answer:
    """Which generation leads, and in which epoch."""
    leader = _reader(env).state().leader
    generation, number = (leader.generation, leader.epoch) if leader is not None else (None, 0)
    return _facts({"generation": generation, "epoch": number})


@app.command(rich_help_panel=KEEP)
@answered
def compact(env: EnvOption, as_json: JsonOption = False) -> Answer:
    """Sum the history up to now into one file. Looking further back is refused afterwards."""
    from airflow_provider_schemamig.core.ledger import maintenance

    state = maintenance.compact(_writer(env))
    return _facts({"version": state.version, "since": state.since})


@app.command(rich_help_panel=KEEP)
@answered
def backup(env: EnvOption, folder: Folder, as_json: JsonOption = False) -> Answer:
    """Copy the ledger and its plans to FOLDER, byte for byte."""
    from airflow_provider_schemamig.core.ledger import backup as backups

    done = backups.backup(open_environment(env), folder)
    return _facts({"uri": _uri(folder), **asdict(done)})


@app.command(rich_help_panel=KEEP)
@answered
def restore(env: EnvOption, folder: Folder, as_json: JsonOption = False) -> Answer:
    """Bring the backup in FOLDER to an environment that has no ledger. Nothing is ever overwritten."""
    from airflow_provider_schemamig.core.ledger import backup as backups

    done = backups.restore(open_environment(env), folder)
    return _facts({"uri": _uri(folder), **asdict(done)})


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
