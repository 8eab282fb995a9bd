"""What a table's log tells about the rows of one version: did they keep a promise that its schema no longer makes?

Rows that came in while the schema made the promise keep it. So only the files added since are looked at, by their statistics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_schemamig.core.deltalog.head import Head, LogTruncated
from airflow_provider_schemamig.core.deltalog.log import nulls_since, values_since
from airflow_provider_schemamig.core.handles.releases import entries_of
from airflow_provider_schemamig.core.handles.shape import Shape
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import ColumnPath, ShardId
from airflow_provider_schemamig.core.schema.model import Primitive, walk
from airflow_provider_schemamig.core.schema.paths import Slot, slot_at
from airflow_provider_schemamig.core.schema.widening import is_widening
from airflow_provider_schemamig.core.storage import ReadStore

#: Before a table's first version.
_EVER = -1


@dataclass(frozen=True, slots=True)
class LogEvidence:
    """``fit.Evidence`` for the version of ``head``; costs one small read a commit since the promise was taken back."""

    store: ReadStore
    head: Head
    live: Shape
    state: State
    shard: ShardId

    def no_null(self, path: ColumnPath) -> bool:
        since = self._promised_until(path, lambda slot: not slot.nullable)
        try:
            return nulls_since(self.store, self.head, path, since) is False
        except LogTruncated:  # nobody can tell any more
            return False

    def within(self, path: ColumnPath, narrow: Primitive, low: int, high: int) -> bool:
        since = self._promised_until(path, lambda slot: slot.type == narrow or is_widening(slot.type, narrow))
        try:
            found = values_since(self.store, self.head, path, since)
        except LogTruncated:
            return False
        return found is not None and low <= found[0] and found[1] <= high

    def _promised_until(self, path: ColumnPath, promised: Callable[[Slot], bool]) -> int:
        """The version whose commit ended the last schema with ``promised`` true of the field at ``path``; rather too early a one."""
        wanted = stored_path(self.live, path)
        found = entries_of(self.state, self.shard)
        for number in range(len(found) - 1, -1, -1):
            shape = Shape(found[number].physical, dict(found[number].stored_names))
            if not any(promised(slot) for slot in _slots(shape, wanted)):
                continue
            if number + 1 < len(found):
                return found[number + 1].since_table_version
            # What ended it is not in the ledger yet: an upgrade on its way.
            bases = [intent.base_version for intent in self.state.intents_of(self.shard)]
            return max(min(bases, default=_EVER), found[number].since_table_version)
        return _EVER


def stored_path(shape: Shape, path: ColumnPath) -> tuple[str, ...]:
    """What a field is known by in the data files: the names there of all that it is in."""
    parts = path.split(".")
    return tuple(shape.name_in_files(ColumnPath(".".join(parts[: number + 1]))) for number in range(len(parts)))


def _slots(shape: Shape, wanted: tuple[str, ...]) -> list[Slot]:
    paths = (path for path, _ in walk(shape.fields) if stored_path(shape, path) == wanted)
    return [slot for path in paths if (slot := slot_at(shape.fields, path)) is not None]
