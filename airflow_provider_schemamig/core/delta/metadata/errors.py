"""Why a change cannot be made to a table's metadata (see also ``schema.errors.NotApplicable``)."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.exceptions import Refusal


@dataclass(eq=False)
class ColumnInUse(Refusal):
    """Delta's own refusals: something on the table depends on the column."""

    code = "column_in_use"
    op: str
    path: str
    user: str

    @property
    def message(self) -> str:
        return f"{self.op} {self.path} is not possible: {self.user} depends on it."

    @property
    def next_action(self) -> str:
        return "Change or drop what depends on the column in a release before."


@dataclass(eq=False)
class NotInstant(Refusal):
    """A change that metadata alone cannot make."""

    code = "not_instant"
    op: str
    path: str
    reason: str

    @property
    def message(self) -> str:
        return f"{self.op} {self.path} needs more than a metadata commit: {self.reason}."

    @property
    def next_action(self) -> str:
        return "Let `schemamig plan` choose the mechanism, or declare a rewrite or replacement."


@dataclass(eq=False)
class CannotCluster(Refusal):
    """Delta's own refusals of a clustering column, and tables whose files cannot be laid out anew."""

    code = "cannot_cluster"
    op: str
    path: str
    reason: str

    @property
    def message(self) -> str:
        return f"the rows cannot be clustered by {self.path}: {self.reason}."

    @property
    def next_action(self) -> str:
        return 'CLUSTER BY other columns, or declare a rewrite (docs/online-changes.md, "Clustering").'
