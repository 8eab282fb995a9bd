"""Why a release cannot be planned: what it would take from an open hold, or wants of a collection that was given back."""

from __future__ import annotations

from collections.abc import Sequence

import pendulum

from airflow_provider_schemamig.core.times import minute
from airflow_provider_schemamig.exceptions import Refusal

_BEGUN = "(if a rollback of it has begun, `schemamig upgrade` to it takes that back)"
_BACKUP = f"Stay at the release {_BEGUN}; or restore that folder from a backup of after the release's commit, and roll back then."


class HoldKeeps(Refusal):
    """A change would lose something that a hold keeps for its way back. ``lost``: what that is; ``asks``: who would take it."""

    code = "hold_open"
    generation: int
    until: pendulum.DateTime
    lost: str
    asks: str

    @property
    def message(self) -> str:
        return f"{self.asks}, but the rollback of generation {self.generation} needs {self.lost} until {minute(self.until)}."

    @property
    def next_action(self) -> str:
        over = self.until <= pendulum.now("UTC")
        ends = f"`schemamig contract --generation {self.generation}`"
        first = f"That time is over: run {ends}, then this again" if over else "Wait until then"
        return f"{first}, or end that hold now with --end-hold."


class DroppedInUse(Refusal):
    """Somebody made something of a table depend on a column that the end of a hold drops."""

    code = "dropped_in_use"
    message = (
        "the hold of generation {generation} cannot end: the column {column}, which its release dropped, is used on the table by {user}. "
        "Nothing was taken away."
    )
    next_action = (
        "Take the column out of that by an ALTER TABLE of Spark (of a table's clustering: CLUSTER BY what the release declares), and run "
        "this again."
    )
    generation: int
    column: str
    user: str


class RollbackLogGone(Refusal):
    """Rows that came in since the release would have to go back, but the log does not show them any more."""

    code = "way_back_gone"
    message = (
        "Rollback would lose rows: the log of {uri} that records the rows written since the release was cleaned up (version {version} is "
        "gone). Nothing was changed."
    )
    next_action = f"Stay at the release {_BEGUN}; or restore that table's _delta_log from a backup and roll back then."
    uri: str
    version: int


class OldTableMissing(Refusal):
    """The table that a rollback would go back to is not there: its folder was deleted during the hold.

    ``sealed_version``: what is there is a copy of before that version, the last one of the table, and lacks what came in between.
    """

    code = "old_table_missing"
    uri: str
    sealed_version: int | None = None

    @property
    def message(self) -> str:
        if self.sealed_version is None:
            return f"the table before the release is not at {self.uri} any more, so there is nothing to go back to. Nothing was changed."
        end = f"it was sealed at its version {self.sealed_version}, which is not in its log"
        return f"the table at {self.uri} is a copy of before the release: {end}, so rows of it may be missing. Nothing was changed."

    @property
    def next_action(self) -> str:
        return _BACKUP


class OldTableForgets(Refusal):
    """The table that a rollback would go back to forgets transaction identifiers, and an older leader is kept off it by one."""

    code = "old_table_forgets"
    message = (
        "the table before the release, at {uri}, forgets transaction identifiers after {value} (delta.setTransactionRetentionDuration), so "
        "an older leader could not be kept off it. Nothing was changed."
    )
    next_action = (
        "Run ALTER TABLE delta.`{uri}` UNSET TBLPROPERTIES ('delta.setTransactionRetentionDuration') in Spark, which its seal does not "
        "hinder, then roll back."
    )
    uri: str
    value: str


class OldTableChanged(Refusal):
    """Others changed rows or columns of the table that a rollback would go back to: RESTORE gets through a seal.

    ``version``: the newest one at which it had all of them; None where its log tells of none: it was cleaned up, or rows were brought back
    into what others had changed."""

    code = "old_table_changed"
    uri: str
    version: int | None

    @property
    def message(self) -> str:
        what = f"others took rows or columns out of the table before the release, at {self.uri}, or brought older ones back"
        if self.version is None:
            return f"{what}, or may have: its log tells of no version that has all of them. Nothing was changed."
        return f"{what}, since its version {self.version}. Nothing was changed."

    @property
    def next_action(self) -> str:
        if self.version is None:
            return _BACKUP
        return (
            f"Run RESTORE TABLE delta.`{self.uri}` TO VERSION AS OF {self.version} in Spark, which brings back all that it had then, and "
            f"takes out what others wrote there since; then roll back. Or stay at the release {_BEGUN}."
        )


class Unmanaged(Refusal):
    """A release wants something of a collection that this environment gave back. ``is_taken``: its name is another table's since."""

    code = "unmanaged"
    message = "this environment does not manage the collection any more (`unmanage`), and release {version} still uses it."
    version: str
    is_taken: bool = False

    @property
    def next_action(self) -> str:
        adopt = f"`schemamig adopt --table {self.collection}=URI`"
        if self.is_taken:
            alter = f"schemamig alter 'ALTER TABLE {self.collection} RENAME TO other'"
            return (
                f"Another table got its name here since: give that one another name (`{alter}`), or give it back "
                f"(`schemamig unmanage --collection {self.collection}`). Then adopt the release's again ({adopt})."
            )
        return (
            f'Adopt it again ({adopt}), or take it out of schema.sql with removal("{self.collection}"): where it is not managed any more, '
            "nothing is removed."
        )


class NoRowsBack(Refusal):
    """A rewrite names a way back for rows into a table that takes no rows from others."""

    code = "no_rows_back"
    message = (
        "its table makes the values of {columns} itself (GENERATED ALWAYS AS IDENTITY), so `down` could bring no row that is written after "
        "the rewrite back to it."
    )
    next_action = (
        "Leave `down` out of the step: a rollback then asks for --allow-lossy, and leaves behind what was written since. Or copy the rows "
        "to a table whose column is GENERATED BY DEFAULT, and adopt that."
    )
    columns: str


class InsideTable(Refusal):
    """A new table would lie in the folder of another one. ``uri``: that folder."""

    code = "inside_table"
    message = "its new table would lie in {uri}, the folder of another Delta table, whose VACUUM deletes what is not its own."
    next_action = (
        "If that table is the collection itself, and not managed yet: `adopt`. Else let its owner move it to another folder "
        "(one that is managed here: `unmanage`, move it, `adopt`), or give the collection another name. Changes that "
        "need no new table are not concerned."
    )
    uri: str


class ReleaseChanged(Refusal):
    """The folder is another than the environment's. ``changed``: the version it says something else of; no ``collections``: its steps."""

    code = "release_changed"
    next_action = (
        "A deployed release is final: give the change a new version and a migration module. If another branch released {changed}, bring "
        "its version into this folder first (`schemamig rebase` renumbers the one that is being written)."
    )
    version: str
    changed: str
    collections: Sequence[str] = ()

    @property
    def message(self) -> str:
        what = f"declares {', '.join(self.collections)} differently from" if self.collections else "has other steps than"
        return f"the environment is at {self.version}, and for {self.changed} this release folder {what} what was deployed here."


class WrongRelease(Refusal):
    code = "wrong_release"
    message = "the environment belongs to the data product {expected!r}, the release folder is {found!r}."
    next_action = "Check --env and --release: one of them is another product's."
    expected: str
    found: str
