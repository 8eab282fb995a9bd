"""Why a change cannot be made to a table's metadata (see also ``schema.errors.NotApplicable``)."""

from __future__ import annotations

from airflow_provider_schemamig.exceptions import Refusal


class ColumnInUse(Refusal):
    """Delta's own refusals: something on the table depends on the column."""

    code = "column_in_use"
    message = "{op} {path} is not possible: {user} depends on it."
    next_action = "Change or drop what depends on the column in a release before."
    op: str
    path: str
    user: str


class NotInstant(Refusal):
    """A change that metadata alone cannot make."""

    code = "not_instant"
    message = "{op} {path} needs more than a metadata commit: {reason}."
    next_action = "Let `schemamig plan` choose the mechanism, or declare a rewrite or replacement."
    op: str
    path: str
    reason: str


class CannotCluster(Refusal):
    """Delta's own refusals of a clustering column, and tables whose files cannot be laid out anew."""

    code = "cannot_cluster"
    message = "the rows cannot be clustered by {path}: {reason}."
    next_action = 'CLUSTER BY other columns, or declare a rewrite (docs/online-changes.md, "Clustering").'
    op: str
    path: str
    reason: str
