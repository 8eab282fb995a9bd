"""CLUSTER BY, Delta's index: new files are laid out by it first, then older ones are, then readers may count on it.

Nothing is asked of who writes rows. From WRITE on every OPTIMIZE, by whomever, clusters what came; REORG does the files from before. Taken
away it is one commit, and an instant change: rows that lie in order may lie so.
"""

from __future__ import annotations

from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.delta.metadata.errors import CannotCluster
from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.online.operation import Chain, Enter, Note, Operation, Recluster
from airflow_provider_schemamig.core.schema.changes import ChangeClustering
from airflow_provider_schemamig.core.schema.element_states import ElementClass, ElementState
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.transfer.file_rewrite import why_not


def operations(change: ChangeClustering, table: Declaration) -> Chain:
    steps = (Note(ElementState.DELETE), Enter(ElementState.WRITE, (change,)), Recluster(), Note(ElementState.PUBLIC))
    return (Operation("clustering", ElementClass.REORG, change, steps, tuple(map(ColumnPath, change.new))),)


def check_on_head(head: Head, change: ChangeClustering) -> None:
    """Raise CannotCluster for a table whose older files nobody but Spark itself could lay out anew."""
    reason = why_not(head)
    if reason is not None:
        raise CannotCluster(op=change.op, path=", ".join(change.new), reason=reason)
