"""Why a lost ledger cannot be made anew from the tables (docs/ledger.md)."""

from __future__ import annotations

from airflow_provider_schemamig.exceptions import Refusal


class LedgerThere(Refusal):
    code = "ledger_there"
    message = "{uri} has a ledger."
    next_action = (
        "`schemamig ledger verify` says whether it is sound. One that cannot be repaired is moved away first: `_schemamig/ledger`."
    )
    uri: str


class CollectionWithoutTable(Refusal):
    code = "collection_without_table"
    message = "no table of it was found, or all that were found are sealed."
    next_action = "Give the release folder of the release that the environment was at, or name the table: `--table NAME=URI`."


class SeveralTables(Refusal):
    code = "several_tables"
    next_action = "Look which one has the rows, and name it: `--table NAME=URI`."
    uris: tuple[str, ...]

    @property
    def message(self) -> str:
        return f"{len(self.uris)} tables of this collection are not sealed: {', '.join(self.uris)}."


class EndUnknown(Refusal):
    """Nothing shows that the ledger had this table as the collection's, and as it is now. ``reason``: a sentence without its full stop;
    ``action`` and ``generation``: of the leader's commit that it is about, if it is about one."""

    code = "end_unknown"
    message = "{reason}."
    next_action = (
        "Look at the rows and columns of all tables of the collection. The one that is right for this release is named, `--table "
        "NAME=URI`, and taken with `--as-it-is NAME`."
    )
    uri: str
    reason: str
    action: str | None = None
    generation: int | None = None


class NotAsDeclared(Refusal):
    code = "not_as_declared"
    message = "{uri} is not as the release declares it: {differences:; }."
    next_action = (
        "Give the release folder of the release that the environment was at, with release.toml at that version. A rule for writers that "
        "only the table has, such as a CHECK that an upgrade left when it died, is removed by hand first: `ALTER TABLE ... DROP CONSTRAINT "
        "name`, `ALTER COLUMN ... DROP NOT NULL`, `UNSET TBLPROPERTIES`."
    )
    uri: str
    differences: tuple[str, ...]


class SeveralEnvironments(Refusal):
    code = "several_environments"
    next_action = "Tables of another environment do not belong here: move their folders away, or leave them out."
    env_ids: tuple[str, ...]

    @property
    def message(self) -> str:
        return f"the tables' fences are of {len(self.env_ids)} environments: {', '.join(self.env_ids)}."
