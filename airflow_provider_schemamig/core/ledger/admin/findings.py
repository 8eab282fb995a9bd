"""What can be wrong with a ledger: a closed list of codes, and what to do about each (``ledger verify``; docs/ledger.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_schemamig.core.schema.delta_rules.table_features import APPEND_ONLY

_RESTORE = "Stop upgrades, move the ledger's folder away and bring the newest backup back: `schemamig ledger restore FOLDER`."
_ONE_VALUE = "Write the right value with `schemamig ledger edit`: it takes back whatever else is stored under the key."
_WRITTEN_PAST = "Something else wrote to the ledger: find out what. `schemamig ledger compact` sums the rows up once they are right again."

#: Code -> what to do. Closed: a finding of another code cannot be made.
REMEDIES: Mapping[str, str] = {
    # files
    "unreadable_log": _RESTORE,
    "log_gap": _RESTORE,
    "data_missing": _RESTORE,
    "unreadable_data": _RESTORE,
    "no_config": _RESTORE,
    # stored updates
    "negative_multiplicity": _ONE_VALUE,
    "doubled": _ONE_VALUE,
    "two_values": _ONE_VALUE,
    "unreadable_row": "Write a readable value with `schemamig ledger edit`, or take the row away with `schemamig ledger delete`.",
    "wrong_time": _WRITTEN_PAST,
    "wrong_since": _WRITTEN_PAST,
    "went_backwards": (
        "If an older leader came back, stop it and write the newer row with `schemamig ledger edit`. "
        "If it was corrected since, `schemamig ledger compact` forgets it."
    ),
    "format_step_failed": "A defect of this software: go on with the one you had, and report it with what `schemamig ledger dump` prints.",
    # rows that do not agree
    "shard_not_live": "Point the object at the shard that holds the rows, or make that shard live: `schemamig ledger edit`.",
    "schema_missing": "Bring the schema's row back: `schemamig ledger dump --as-of` an earlier version shows it.",
    "schema_of_other_shard": "Point the object at the shard and the schema that belong together: `schemamig ledger edit`.",
    "wrong_fingerprint": "See with `schemamig status` which of both the table is, and correct the other: `schemamig ledger edit`.",
    "no_release": 'Write the row config "release" with the version that the tables are at: `schemamig ledger edit`.',
    "wrong_set_fingerprint": 'Correct the objects first; if they are right, write the fingerprint that was found into config "release".',
    "leader_unknown": "Rewrite the leader row with a generation that has a deployment, and a higher epoch: `schemamig ledger edit`.",
    "leader_not_promoted": "Write the deployment's state as promoted, or the leader row with the generation that really led.",
    "intent_ahead": "No leader can settle it: raise the leader's epoch above it, or delete the intent if its table is as it was before.",
    "intent_without_shard": "Delete the intent, or bring the shard's row back: no leader can settle it as it is.",
    "element_without_shard": "Delete the element, or bring the shard's row back: it is of no table as it is.",
    "generation_unknown": "Bring the deployment's row back (`schemamig ledger dump --as-of` shows it), or delete this row.",
    "hold_without_commit": "Nothing of that generation was committed: write the hold's state as closed.",
    "replacement_without_shard": "Cancel the generation: `schemamig cancel --generation N`; the next preflight builds again.",
    "shared_uri": "Clean-up of one would delete the files of the other: delete the row of the shard that nothing points to.",
    "unusable_uri": "Rewrite the shard's place, as `<collection>/<shard>`: `schemamig ledger edit`. Until then it is not deleted.",
    "orphan_shard": (
        "A later upgrade deletes what was being built, and where a command is named, that one does it now. "
        "If it stays: look into the table, then delete row and folder by hand."
    ),
    # what lies in the environment
    "table_missing": "Restore the table's folder; its rows are in it and not in the ledger.",
    "fence_ahead": "The ledger is older than its tables (files put back by hand?): write the leader row with the epoch that was found.",
    "seal_unknown": "No upgrade knows of it (a restored ledger?). Where the table that it names has newer rows, move the ledger away and "
    "run `schemamig ledger rebuild`. Else ALTER TABLE ... DROP CONSTRAINT schemamig_moved_to_<shard> and UNSET TBLPROPERTIES "
    f"('{APPEND_ONLY}') open the table, and the upgrade can be run again.",
    "orphan_folder": "No row knows this table. Look into it; delete the folder once nobody misses its rows.",
    "plan_missing": "The deployment can neither go on nor back without its plan: restore the file from a backup, or cancel the generation.",
}


@dataclass(frozen=True, slots=True)
class LedgerFinding:
    """``where`` names the row, file or folder in words. ``collection`` and ``key``: the row as ``ledger dump`` prints it, if it is one."""

    code: str
    where: str
    text: str
    collection: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        assert self.code in REMEDIES, self.code

    @property
    def next_action(self) -> str:
        return REMEDIES[self.code]

    def to_json(self) -> dict[str, str | None]:
        """Return the finding as an element of ``findings`` in the document of ``ledger verify``."""
        return {
            "code": self.code,
            "where": self.where,
            "collection": self.collection,
            "key": self.key,
            "text": self.text,
            "next": self.next_action,
        }


def of_row(code: str, collection: str, key: str, text: str) -> LedgerFinding:
    """Return a finding about a row; ``key`` as it is stored."""
    return LedgerFinding(code, f"{collection} {key}", text, collection, key)
