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
    """A leader's last commit to a table, and nothing that shows whether the release of then was committed to the ledger."""

    code = "end_unknown"
    uri: str
    version: int
    action: str
    generation: int
    sealed_for: str | None = None

    @property
    def message(self) -> str:
        sealed = "" if self.sealed_for is None else f", and it is sealed in favour of {self.sealed_for}"
        return (
            f"version {self.version} of {self.uri} is a {self.action} of generation {self.generation}{sealed}; "
            "the audit log does not show that this deployment, or its rollback, came to its end."
        )

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
        return "Give the release folder of the release that the environment was at, with release.toml at that version."


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
