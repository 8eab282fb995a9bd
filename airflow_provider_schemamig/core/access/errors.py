"""Why a handle stops: fences, and requests that no release of the collection can meet."""

from __future__ import annotations

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.exceptions import Conflict, Refusal


class InvalidArgument(Refusal):
    """A call of a handle that says something nobody can follow. ``what``: the argument; ``given``: what it is."""

    code = "invalid_argument"
    message = "{what} cannot be {given}."
    next_action = "Give {rule}."
    what: str
    given: str
    rule: str


class _HandleRefusal(Refusal):
    """``release``: the handle's. ``current``: the environment's."""

    release: Version
    current: Version


class _Fenced(_HandleRefusal):
    """``column``: dotted, as the handle's release calls it; None if it is the whole collection."""

    column: str | None
    reason: str
    #: The release that an upgrade under way leads to.
    under_way: Version | None = None
    #: What the table has is what a rollback left, which the handle's own release did not declare.
    left_behind: bool = False

    @property
    def where(self) -> str:
        """Say where the environment is."""
        coming = f" and an upgrade to {self.under_way} under way" if self.under_way is not None else ""
        return f"with the environment at {self.current}{coming}"

    @property
    def what(self) -> str:
        return f"column {self.column}" if self.column is not None else "the collection"

    @property
    def is_later(self) -> bool:
        return self.release > self.current


class ReaderFenced(_Fenced):
    """The table can no longer be shown as the reader's release declares it, or not yet; nothing was read."""

    code = "reader_fenced"
    message = "a reader of release {release} is fenced, {where}: {what} {reason}."

    @property
    def next_action(self) -> str:
        if self.release == self.current and self.under_way is not None:
            moved = f"An upgrade is under way: move this reader to release {self.under_way} once it is committed"
        elif self.release == self.current and self.left_behind:
            anew = f"write the rows of others again with a writer of release {self.current}"
            moved = f"A rollback left it so: take the rows out that do not fit, {anew}, or declare the type that the table has"
        elif self.release == self.current:
            seen = "`schemamig status` says what was changed outside of the release"
            moved = seen if self.column is None else f"{seen}. After `alter` open this reader without a release"
        else:
            moved = f"Wait until the environment is at {self.release}" if self.is_later else f"Move this reader to release {self.current}"
        return f"{moved}." if self.column is None else f"{moved}, or leave {self.column.partition('.')[0]} out of its columns."


class WriterFenced(_Fenced):
    """Rows in the shape of the writer's release cannot go into the table as it is now; nothing was written."""

    code = "writer_fenced"
    message = "a writer of release {release} is fenced, {where}: {what} {reason}."
    #: The rows do not fit the writer's own release, whatever the table is like now. ``is_newer``: the environment's release has the column.
    is_of_rows: bool = False
    is_newer: bool = False

    @property
    def next_action(self) -> str:
        if self.is_of_rows and not self.is_newer:
            return f"Write rows that fit release {self.release}."
        if self.release == self.current:
            return "Write rows that fit."
        moved = f"Wait until the environment is at {self.release}" if self.is_later else f"Move this writer to release {self.current}"
        return f"{moved}, or write rows that fit."


class UnknownRelease(Refusal):
    """The ledger does not know what the release declares."""

    code = "unknown_release"
    message = "this environment is at release {current} and was never at {release}, nor is {release} in preparation."
    next_action = "Name a release that was deployed here, or run `schemamig preflight` for {release} first."
    release: Version
    current: Version


class NotInRelease(Refusal):
    """The release has no such collection."""

    code = "not_in_release"
    message = "release {release} has no collection of this name."
    next_action = "`schemamig status` lists the collections of the environment's release."
    release: Version


class UnknownColumn(Refusal):
    """``column`` was asked for by name, and the release does not declare it."""

    code = "unknown_column"
    message = "release {release} declares no column {column!r}."
    next_action = "Columns go by the names of the handle's own release, top level only."
    release: Version
    column: str


class NeedsSpark(Refusal):
    """delta-rs would read or write this table wrongly, or not at all. ``because``: what it has that delta-rs cannot deal with."""

    code = "needs_spark"
    message = "{doing} without Spark is refused: {because}."
    next_action = "Use Spark: `.df()` of a reader, or a writer that was opened with `spark=`."
    doing: str
    because: str


class NotForArrow(Refusal):
    """Merging and the like are statements; only Spark runs them."""

    code = "not_for_arrow"
    message = "{doing} is a statement over the whole table, which takes Spark, and this writer was opened without."
    next_action = "Open the writer with `spark=`."
    doing: str


class ShardMoving(Conflict):
    """The collection is being cut over: its table is sealed, and the new one is not in place yet."""

    code = "shard_moving"
    message = "its table is sealed for a cut-over, which did not end within {seconds:.0f} s; nothing was written."
    next_action = "Try again; `schemamig status` says who is cutting over, and the next leader unseals a table that was left sealed."
    seconds: float


class WroteOtherColumns(Refusal):
    """Names went from one column to another in the moment between looking and writing; the rows of one commit are in the wrong ones."""

    code = "wrote_other_columns"
    message = "version {version} of {uri} was written while {column} became the name of another column."
    next_action = "Take the rows of that version out (DELETE, or RESTORE if nothing came after it), then write them again."
    column: str
    version: int
    uri: str


class KeyViolated(Refusal):
    """Rows to be written break a key of the collection, which nothing on the table enforces; nothing was written.

    ``key``: in SQL's words. ``count``: rows of the write. ``sample``: up to 5 of their values in the key's columns, as text.
    """

    code = "key_violated"
    message = "{count} row(s) would break {key}: {sample}; nothing was written."
    key: str
    count: int
    sample: tuple[str, ...]

    @property
    def next_action(self) -> str:
        if self.key.startswith("FOREIGN KEY"):
            return "Write the rows that they refer to first, or leave them out."
        return "Leave them out, or merge on the key, which updates the rows that are there."


class UnusableColumns(Refusal):
    """The call gives no columns to work with: rows without any, or with two of one name, or a merge on none; nothing was written.

    ``doing``: the call. ``given``: what it was given.
    """

    code = "unusable_columns"
    message = "{doing} was called with {given}; nothing was written."
    next_action = "Give the rows columns of the release, each once and of a type; merge on the columns that tell the rows apart."
    doing: str
    given: str


class DuplicateRows(Refusal):
    """Several rows of a merge are equal in the columns that it merges on, and only one of them could be written. Nothing was written.

    ``on``: the table's names of the columns. ``count``: rows of the write. ``sample``: up to 5 of their values in these columns, as text.
    """

    code = "rows_twice"
    message = "{count} rows of the merge are equal in {on} to others of it: {sample}; nothing was written."
    next_action = "Leave one row of each, or merge on more columns. NULL counts as equal to NULL."
    on: tuple[str, ...]
    count: int
    sample: tuple[str, ...]


class RowsReferredTo(Refusal):
    """The write could take rows away that a foreign key of ``referring`` refers to; nothing was written.

    ``key``: in SQL's words. ``column``: that a merge would update in rows that are there; None: an overwrite replaces all of them.
    """

    code = "rows_referred_to"
    next_action = "Merge on the columns that it refers to, which leaves these rows where they are."
    key: str
    referring: str
    column: str | None

    @property
    def message(self) -> str:
        doing = "an overwrite" if self.column is None else f"a merge that updates {self.column}"
        return f"{doing} could take rows away that {self.referring} refers to by {self.key}; nothing was written."
