"""Why a lost ledger cannot be made anew from the tables (docs/ledger.md)."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.exceptions import Refusal


@dataclass(eq=False)
class LedgerThere(Refusal):
    code = "ledger_there"
    uri: str

    @property
    def message(self) -> str:
        return f"{self.uri} has a ledger."

    @property
    def next_action(self) -> str:
        return "`schemamig ledger verify` says whether it is sound. One that cannot be repaired is moved away first: `_schemamig/ledger`."


@dataclass(eq=False)
class CollectionWithoutTable(Refusal):
    code = "collection_without_table"

    @property
    def message(self) -> str:
        return "no table of it was found that is not sealed."

    @property
    def next_action(self) -> str:
        return "Give the release folder of the release that the environment was at, or name the table: `--table NAME=URI`."


@dataclass(eq=False)
class SeveralTables(Refusal):
    code = "several_tables"
    uris: tuple[str, ...]

    @property
    def message(self) -> str:
        return f"{len(self.uris)} tables of it are not sealed: {', '.join(self.uris)}."

    @property
    def next_action(self) -> str:
        return "Look which one has the rows, and name it: `--table NAME=URI`."


@dataclass(eq=False)
class EndUnknown(Refusal):
    """Nothing shows that the ledger had this table as the collection's, and as it is now. ``reason``: a sentence without its full stop;
    ``action`` and ``generation``: of the leader's commit that it is about, if it is about one."""

    code = "end_unknown"
    uri: str
    reason: str
    action: str | None = None
    generation: int | None = None

    @property
    def message(self) -> str:
        return f"{self.reason}."

    @property
    def next_action(self) -> str:
        return (
            "Look at the rows and columns of all tables of the collection. The one that is right for this release is named, "
            "`--table NAME=URI`, and taken with `--as-it-is NAME`."
        )


@dataclass(eq=False)
class NotAsDeclared(Refusal):
    code = "not_as_declared"
    uri: str
    differences: tuple[str, ...]

    @property
    def message(self) -> str:
        return f"{self.uri} is not as the release declares it: {'; '.join(self.differences)}."

    @property
    def next_action(self) -> str:
        return (
            "Give the release folder of the release that the environment was at, with release.toml at that version. What binds writers and "
            "only the table has, as a CHECK of an upgrade that died, goes by hand before: `ALTER TABLE ... DROP CONSTRAINT name`, "
            "`ALTER COLUMN ... DROP NOT NULL`, `UNSET TBLPROPERTIES`."
        )


@dataclass(eq=False)
class SeveralEnvironments(Refusal):
    code = "several_environments"
    env_ids: tuple[str, ...]

    @property
    def message(self) -> str:
        return f"the tables' fences are of {len(self.env_ids)} environments: {', '.join(self.env_ids)}."

    @property
    def next_action(self) -> str:
        return "Tables of another environment do not belong here: move their folders away, or leave them out."
