"""Every error of a stream's gaps and restores, word for word: error_texts.txt, in the order of the table below."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_schemamig.core.names import Fingerprint
from airflow_provider_schemamig.core.replication import errors as e
from airflow_provider_schemamig.exceptions import SchemamigError

TEXTS = Path(__file__).parent / "error_texts.txt"
URI = "s3://lake/flights/g1-0123"
H1, H2 = Fingerprint("sf1:1111"), Fingerprint("sf1:2222")

ERRORS: tuple[SchemamigError, ...] = (
    e.LogCleaned(collection="flights", uri=URI, after=7, first=20),
    e.ChangeDataVacuumed(collection="flights", uri=URI, lo=7, hi=9, file="_change_data/cdc-0.parquet"),
    e.ChangeFeedOff(collection="flights", uri=URI, lo=7, hi=9, file="part-0.parquet"),
    e.OriginReplaced(collection="flights", shard="g1-0123", reason="g2-4567 took its place with other rows"),
    e.NeverRestored(collection="flights", origin="prod"),
    e.RestoreWouldLose(collection="flights", uri=URI, commits=2, first=5),
    e.RestoreWouldLose(collection="flights", uri=URI, of="prod", is_followed=True),
    e.RestoreWouldLose(collection="flights", uri=URI, of="prod"),
    e.TargetAppendOnly(collection="flights", uri=URI),
    e.RestoreChangesSchema(collection="flights", version=9, event_hash=H2, local_hash=H1),
    e.RestoreChangesSchema(collection="flights", version=9, event_hash=H2, local_hash=H1, detail="gate is missing"),
    e.LoopingStream(env_id="prod"),
)
GAPS = {"log_cleaned", "change_data_vacuumed", "change_feed_off", "origin_replaced", "never_restored"}


def test_stream_error_texts() -> None:
    assert [str(error) for error in ERRORS] == TEXTS.read_text().splitlines()


def test_every_class_is_in_the_table() -> None:
    defined = {found for found in vars(e).values() if isinstance(found, type) and found.__module__ == e.__name__}
    assert defined - {e.GapError} == {type(error) for error in ERRORS}
    assert {error.code for error in ERRORS if isinstance(error, e.GapError)} == GAPS
    assert not any(error.retryable for error in ERRORS)
