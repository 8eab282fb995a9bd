"""Every error about the ledger, word for word: error_texts.txt, in the order of the table below."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_schemamig.cli.commands.ledger.verify import LedgerUnsound
from airflow_provider_schemamig.core.ledger import errors as e
from airflow_provider_schemamig.core.ledger.admin import edit_errors as d
from airflow_provider_schemamig.core.ledger.admin.findings import of_row
from airflow_provider_schemamig.exceptions import SchemamigError

TEXTS = Path(__file__).parent / "error_texts.txt"
URI = "s3://lake/prod"

ERRORS: tuple[SchemamigError, ...] = (
    e.NoEnvironment(uri=URI),
    e.LedgerTooNew(uri=URI, found="9", known=2),
    e.LedgerTooOld(uri=URI, found=1, minimum=2),
    e.LedgerFormatOld(uri=URI, what="a row written by hand", found=1, current=2),
    e.LedgerInUse(generation=3, work="the deployment"),
    e.FormatStepFailed(source=1, target=2, reason="it forgot its work"),
    e.LedgerDamaged(where='ledger row holds "1"', reason="not JSON (Expecting value: line 1 column 1 (char 0))"),
    e.LedgerConflict(expected=4, tries=3),
    e.LedByAnother(
        what="generation 2",
        held_epoch=0,
        current_epoch=3,
        winner=3,
        does="1.0.0 -> 1.1.0, promoted",
        since="2026-11-24 04:00 UTC",
        by="ann (airflow:schemamig_upgrade/manual__1/preflight)",
    ),
    e.LedgerOutcomeUnknown(expected=4, commit_id="0123abcd", reason="connection reset"),
    e.LedgerVersionUnknown(version=9, head=4),
    e.LedgerCompacted(version=3, since=4),
    e.PlanMissing(digest="d" * 8),
    e.BackupUnusable(folder="/backup", reason="there is a backup already", is_made=True),
    e.UnknownLedgerCollection(name="pause", known=("pauses", "pins")),
    e.NumbersExhausted(uri=URI, epoch=2**31 - 2),
    d.LooksAlive(signs=["generation 2 is promoted and not committed", "an expand of flights by generation 2 is open"]),
    d.EditUnsound(findings=[of_row("went_backwards", "leader", '"leader"', "(epoch, generation) went from (2, 2) to (1, 2)")]),
    d.RowChanged(where='pauses "flights"', seen=None, found='{"scope":"flights"}'),
    d.InvalidRow(where='pauses "flights"', reason="its value belongs to the key 'planes'"),
    d.UnknownRow(where='object "flights"', known=["config", "objects"]),
    d.RowProtected(where='config "environment"', reason="without it nothing in the ledger can be read"),
    d.NotAudited(note="the audit log at s3://lake/prod/_schemamig/history could not be written: access denied"),
    LedgerUnsound(findings=2),
)


def test_ledger_error_texts() -> None:
    assert [str(error) for error in ERRORS] == TEXTS.read_text().splitlines()


def test_every_class_is_in_the_table() -> None:
    defined = {
        found
        for module in (e, d)
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, SchemamigError) and found.__module__ == module.__name__
    }
    assert defined <= {type(error) for error in ERRORS}


def test_each_says_what_to_do() -> None:
    """A code of its own, a sentence that ends, and an imperative after it."""
    assert len({type(error).code for error in ERRORS}) == len(ERRORS)
    for error in ERRORS:
        assert error.message.endswith("."), error
        assert error.next_action.endswith("."), error
        assert error.next_action[0].isupper() or error.next_action.startswith("`schemamig "), error
