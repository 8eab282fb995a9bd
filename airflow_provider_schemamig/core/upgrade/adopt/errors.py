"""Why a table is not taken under management, or not given back (docs/adopting.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_schemamig.core.schema.properties import FORGETS
from airflow_provider_schemamig.exceptions import Conflict, Refusal


@dataclass(eq=False)
class SameTable(Refusal):
    """Two of the names given are for one table, or one name is given two tables."""

    code = "same_table"
    uri: str
    other: str

    @property
    def message(self) -> str:
        return f"{self.uri} is given for {self.other}, too."

    @property
    def next_action(self) -> str:
        return "Give each table one name, and each name one table."


@dataclass(eq=False)
class NameTwice(Refusal):
    code = "name_twice"

    @property
    def message(self) -> str:
        return "the name is given two tables."

    @property
    def next_action(self) -> str:
        return "Give each name one table."


@dataclass(eq=False)
class AlreadyManaged(Refusal):
    """The environment has this table, or a collection of this name, already."""

    code = "already_managed"
    uri: str
    owner: str

    @property
    def message(self) -> str:
        return f"{self.uri} is managed by this environment already, as the collection {self.owner}."

    @property
    def next_action(self) -> str:
        return "`schemamig status` shows each collection's table; `schemamig unmanage` gives one back, then it can be adopted anew."


@dataclass(eq=False)
class ForgetsTransactions(Refusal):
    """The table forgets transaction identifiers, and what keeps an older leader off it is one."""

    code = "forgets_transactions"
    uri: str
    value: str

    @property
    def message(self) -> str:
        return f"{self.uri} forgets transaction identifiers after {self.value} ({FORGETS}): an older leader could not be kept off it."

    @property
    def next_action(self) -> str:
        return (
            f"ALTER TABLE ... UNSET TBLPROPERTIES ('{FORGETS}'), then adopt it: the table remembers them for ever then, one small action "
            "an application."
        )


@dataclass(eq=False)
class WrongPlace(Refusal):
    """A table that is part of the environment itself, or that has the environment inside its own folder."""

    code = "wrong_place"
    uri: str
    reason: str

    @property
    def message(self) -> str:
        return f"the table at {self.uri} cannot be adopted by this environment: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Put the environment's root into a folder of its own."


@dataclass(eq=False)
class TableSealed(Refusal):
    """Another environment of schemamig moved the table's rows away and sealed it."""

    code = "table_sealed"
    uri: str
    moved_to: str

    @property
    def message(self) -> str:
        return f"the table at {self.uri} is sealed: its rows moved to the shard {self.moved_to}, and nobody can write to it."

    @property
    def next_action(self) -> str:
        return "Adopt the table that holds the rows now; docs/adopting.md says how to lift a seal that nobody needs."


@dataclass(eq=False)
class TableDiffers(Refusal):
    """The release declares the collection, and the table is something else."""

    code = "table_differs"
    uri: str
    version: str
    differences: Sequence[str]

    @property
    def message(self) -> str:
        return f"the table at {self.uri} is not what release {self.version} declares: {'; '.join(self.differences)}."

    @property
    def next_action(self) -> str:
        return "Bring the table to that shape, or adopt it with a version of the release that declares it as it is."


@dataclass(eq=False)
class TablesMissing(Refusal):
    """A new environment gets all collections of its release at once."""

    code = "tables_missing"
    version: str
    names: Sequence[str]

    @property
    def message(self) -> str:
        return f"release {self.version} declares collections without a table here: {', '.join(self.names)}."

    @property
    def next_action(self) -> str:
        return "Give each of them with --table NAME=URI; what is still to be made belongs in the next version, and `upgrade` creates it."


@dataclass(eq=False)
class MoreThanAdopted(Refusal):
    """The way from the environment's release to the folder's head has other changes in it than these tables."""

    code = "more_than_adopted"
    source: str
    target: str
    others: Sequence[str]

    @property
    def message(self) -> str:
        return f"from {self.source} to {self.target} the release also changes: {', '.join(self.others)}."

    @property
    def next_action(self) -> str:
        return (
            "Adopt with the version that brings these tables and nothing else: upgrade to the one before it first, each from its checkout."
        )


@dataclass(eq=False)
class CollectionInUse(Refusal):
    """Something unfinished concerns the collection."""

    code = "collection_in_use"
    what: str
    first: str

    @property
    def message(self) -> str:
        return f"the collection is in use: {self.what}."

    @property
    def next_action(self) -> str:
        return self.first


@dataclass(eq=False)
class Overtaken(Conflict):
    """The environment went on while the tables were looked at."""

    code = "overtaken"

    @property
    def message(self) -> str:
        return "the environment was changed by somebody else meanwhile; nothing was recorded."

    @property
    def next_action(self) -> str:
        return "Try again: tables, release and environment are compared anew."
