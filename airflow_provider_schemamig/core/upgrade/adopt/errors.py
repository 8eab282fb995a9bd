"""Why a table is not taken under management, or not given back (docs/adopting.md)."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_schemamig.exceptions import Conflict, Refusal


class SameTable(Refusal):
    """Two of the names given are for one table, or one name is given two tables."""

    code = "same_table"
    message = "{uri} is given for {other}, too."
    next_action = "Give each table one name, and each name one table."
    uri: str
    other: str


class NoTables(Refusal):
    """A folder whose tables are to be found has none right below it."""

    code = "no_tables"
    message = "{uri} has no Delta table right below it."
    next_action = "Name the folder whose folders are tables, or each table: --table NAME=URI."
    uri: str


class RepeatedCollection(Refusal):
    code = "name_twice"
    message = "the name is given two tables."
    next_action = "Give each name one table."


class AlreadyManaged(Refusal):
    """The environment has this table, or a collection of this name, already."""

    code = "already_managed"
    message = "{uri} is managed by this environment already, as the collection {owner}."
    next_action = (
        "`schemamig status --json` has each collection's `uri`; `schemamig unmanage --collection {owner}` lets go of this one, then it can "
        "be adopted again."
    )
    uri: str
    owner: str


class TableNotLive(Refusal):
    """The environment has this table, and no collection has its rows there. ``why``: since when, or not yet."""

    code = "table_not_live"
    message = "{uri} is a table of this environment that no collection has its rows in: it was made for {owner}, and {why}."
    uri: str
    owner: str
    why: str
    #: It is its owner's, so nothing deletes it.
    adopted: bool

    @property
    def next_action(self) -> str:
        if self.adopted:
            return "It can be adopted again when `schemamig contract` has ended what keeps it: `schemamig status` shows until when."
        return (
            "`schemamig contract`, or the cleanup after an upgrade, deletes it; `schemamig status` shows the holds. If you want its rows, "
            f"copy them before that (CREATE TABLE ... AS SELECT * FROM delta.`{self.uri}`), and adopt the copy."
        )


class ForgetsTransactions(Refusal):
    """The table forgets transaction identifiers, and what keeps an older leader off it is one."""

    code = "forgets_transactions"
    message = (
        "{uri} forgets transaction identifiers after {value} (delta.setTransactionRetentionDuration): an older leader could not be kept "
        "off it."
    )
    next_action = (
        "Run ALTER TABLE ... UNSET TBLPROPERTIES ('delta.setTransactionRetentionDuration'), then adopt it. From then on the table keeps "
        "all identifiers, one small action in its log for each application."
    )
    uri: str
    value: str


class WrongPlace(Refusal):
    """A table in an environment's own records or in a table's folder, or with the environment or a table in its own folder."""

    code = "wrong_place"
    message = "the table at {uri} cannot be adopted by this environment: {reason}."
    next_action = "{remedy}"
    uri: str
    reason: str
    remedy: str = "Put the environment's root into a folder of its own."


class TableSealed(Refusal):
    """Another environment of schemamig moved the table's rows away and sealed it."""

    code = "table_sealed"
    message = "the table at {uri} is sealed: its rows moved to the shard {moved_to}, and nobody can write to it."
    next_action = "Adopt the table that holds the rows now; docs/adopting.md says how to unseal a table that nobody needs sealed."
    uri: str
    moved_to: str


class TableDiffers(Refusal):
    """The release declares the collection, and the table is something else."""

    code = "table_differs"
    message = "the table at {uri} is not what release {version} declares: {differences:; }."
    next_action = "Bring the table to that shape, or adopt it with a version of the release that declares it as it is."
    uri: str
    version: str
    differences: Sequence[str]


class TablesMissing(Refusal):
    """A new environment gets all collections of its release at once."""

    code = "tables_missing"
    message = "release {version} declares collections without a table here: {names}."
    next_action = "Give each of them with --table NAME=URI; what is still to be made belongs in the next version, and `upgrade` creates it."
    version: str
    names: Sequence[str]


class MoreThanAdopted(Refusal):
    """The way from the environment's release to the folder's head has other changes in it than these tables."""

    code = "more_than_adopted"
    message = "from {source} to {target} the release changes other collections: {others}."
    source: str
    target: str
    others: Sequence[str]
    #: The way there has these tables in it, too.
    brings: bool = True

    @property
    def next_action(self) -> str:
        if not self.brings:
            return f"Upgrade to {self.target} first (`schemamig upgrade`), then adopt: no release up to there brings these tables."
        return (
            "Adopt with a version that brings these tables and nothing else; upgrade to the version before it first. Use each version's "
            "own checkout."
        )


class CollectionInUse(Refusal):
    """Something unfinished concerns the collection."""

    code = "collection_in_use"
    message = "the collection is in use: {what}."
    next_action = "{first}"
    what: str
    first: str


class Overtaken(Conflict):
    """The environment went on while the tables were looked at."""

    code = "overtaken"
    message = "the environment was changed by somebody else meanwhile; nothing was recorded."
    next_action = "Try again: tables, release and environment are compared again."
