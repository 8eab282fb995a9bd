"""Files that Spark writes in a folder of their own. A commit of ours makes them a table's: all of them at once, or none.

The folder lies below the table's root, and is a table itself for as long as Spark writes there. Nobody sees the files before our commit
names them, whatever becomes of the driver that writes them. A process that dies leaves a folder that no table knows of, for VACUUM to find.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_schemamig.core.delta.actions import RawAction, encode_actions
from airflow_provider_schemamig.core.delta.commit.commit_info import label_of
from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.delta.log.listing import LOG, commit_key
from airflow_provider_schemamig.core.delta.properties import MAPPING_MAX_ID, STATS_COLUMNS
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.schema.delta_rules.property_values import STATS_COUNT
from airflow_provider_schemamig.core.schema.delta_rules.table_features import MAPPING_MODE
from airflow_provider_schemamig.core.storage import ReadStore, Store
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.times import now_millis
from airflow_provider_schemamig.core.transfer.errors import FilesDiffer

#: Properties that say how files are written.
FILE_PROPERTIES = frozenset({MAPPING_MODE, MAPPING_MAX_ID, STATS_COLUMNS, STATS_COUNT, "delta.parquet.compression.codec"})


def make_table(store: Store, folder: str, operation: str, actions: Sequence[RawAction]) -> None:
    """Make the table that Spark writes to. ``actions``: its protocol, its metaData, and what else it begins with."""
    info = {"timestamp": now_millis(), "operation": label_of(operation), "operationParameters": {}}
    store.put(f"{folder}/{commit_key(0)}", encode_actions([{"commitInfo": info}, *actions]))


def files_in(env: EnvironmentRoot, store: ReadStore, folder: str, collection: CollectionName, *, data_change: bool) -> list[RawAction]:
    """Return what Spark wrote, as ``add`` actions of the table itself. Raises FilesDiffer."""
    own = env.table_store(store.location.child(folder).uri)
    files = [add for _, add in sorted(active_files(own, read_head(own).version).items())]
    left = sum(":" in str(add["path"]) for add in files)  # an absolute URI: a file as it was
    if left:
        raise FilesDiffer(collection=collection, what=f"{left} file(s) that Spark left as they are", expected="none of those")
    return [{**add, "path": f"{folder}/{add['path']}", "dataChange": data_change} for add in files]


def removal(file: RawAction, now: int, *, data_change: bool) -> RawAction:
    """Return the ``remove`` action of an active file."""
    kept = {key: file[key] for key in ("path", "partitionValues", "size", "deletionVector") if file.get(key) is not None}
    return {"remove": {**kept, "deletionTimestamp": now, "dataChange": data_change, "extendedFileMetadata": True}}


def end_table(store: Store, folder: str) -> None:
    """Delete the staging table's log: the files are the target table's own by now."""
    store.delete_tree(f"{folder}/{LOG}")
