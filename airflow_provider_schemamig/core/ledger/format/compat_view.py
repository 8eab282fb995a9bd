"""A ledger of an older format seen as one of the current format: the steps between, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from airflow_provider_schemamig.core.ledger.codec import RawRow
from airflow_provider_schemamig.core.ledger.fold import Texts
from airflow_provider_schemamig.core.ledger.format.formats import Formats
from airflow_provider_schemamig.core.ledger.format.migrate import CurrentRows, MigratedLedger, migrate_ledger
from airflow_provider_schemamig.core.ledger.rows import FROZEN_COLLECTIONS


class Older(Mapping[str, Texts]):
    """Collection -> texts in the current format, of a ledger at ``version`` that is stored in format ``number``.

    The steps run on first sight of a collection that they may change. Frozen ones are the same in every format, and are seen without:
    neither damage elsewhere nor a step that fails hides them.
    """

    def __init__(self, version: int, number: int, stored: Mapping[str, Texts], rows: tuple[RawRow, ...], formats: Formats) -> None:
        self.rows = rows
        self._version = version
        self._number = number
        self._stored = stored
        self._formats = formats

    @cached_property
    def upgrades(self) -> tuple[MigratedLedger, ...]:
        """Return the ledger after each step, as if it were written at the versions to come. Raises as ``migrate.migrate_ledger``, and
        LedgerDamaged.
        """
        current, found = self._current_rows(), []
        for version, step in enumerate(self._formats.steps_from(self._number), start=self._version + 1):
            found.append(migrate_ledger(current, step, self._formats, version))
            current = found[-1].current
        return tuple(found)

    @cached_property
    def _texts(self) -> dict[str, Texts]:
        found: dict[str, Texts] = {}
        for (collection, key), (value, _) in self.upgrades[-1].current.items():
            found.setdefault(collection, {})[key] = value
        return found

    def _current_rows(self) -> CurrentRows:
        written: dict[tuple[str, str, str], int] = {}
        for row in self.rows:
            if row.diff > 0:
                written[row[:3]] = max(row.ts, written.get(row[:3], row.ts))
        texts = ((collection, key, value) for collection, some in self._stored.items() for key, value in some.items())
        return {(collection, key): (value, written[collection, key, value]) for collection, key, value in texts}

    def __getitem__(self, collection: str) -> Texts:
        return self._stored[collection] if collection in FROZEN_COLLECTIONS else self._texts[collection]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)
