"""The folder through which a task and its driver talk: JSON objects that each side puts for the other, and nobody listens on a port.

The task puts ``request-1.json``, ``request-2.json``, ... and finds ``result-1.json``, ...; while it lives it counts ``task.json`` up. The
driver says in ``driver.json`` how far it is. This is the task's side, ``job`` the driver's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow_provider_schemamig.core.storage import THROWAWAY, Location, ObjectMissing, StorageOptions, Store, open_store, spark_uri
from airflow_provider_schemamig.core.storage.own_places import exchange_folder

#: ``{"beat": n}``. The driver ends when it is gone, or does not change any more.
TASK = "task.json"
#: ``{"state": UP | READY, "number": of the request, "tasks": [done, total], "said": what that job says of itself}``.
DRIVER = "driver.json"
#: The driver's session is made; and the cluster has given it cores, too.
UP, READY = "up", "ready"
#: The job of a request that asks for nothing more.
END = "end"

#: Between two looks: at a local folder, which costs nothing, and at an object store, where each is a request.
LOCAL_SECONDS, REMOTE_SECONDS = 0.05, 0.25


def request_name(number: int) -> str:
    return f"request-{number}.json"


def result_name(number: int) -> str:
    return f"result-{number}.json"


#: What a driver ends with, and says, that never saw its task in the folder.
UNSEEN, UNSEEN_TEXT = 77, "schemamig: this driver never saw the folder that it was to take its work from"


class FileExchange:
    """A folder of its own below ``folder_uri``."""

    def __init__(self, folder_uri: str, options: Mapping[str, str]) -> None:
        self._name = exchange_folder()
        self._location = Location.parse(folder_uri).child(self._name)
        # Nothing of it is needed after a power failure: on a disk nobody has to wait until it is written.
        self._store: Store = open_store(Location.parse(folder_uri), StorageOptions({**options, THROWAWAY: "true"}))

    @property
    def uri(self) -> str:
        """Return the folder as the driver spells it."""
        return spark_uri(self._location.uri)

    @property
    def pause_seconds(self) -> float:
        return LOCAL_SECONDS if self._location.local_path is not None else REMOTE_SECONDS

    def put(self, name: str, document: Mapping[str, Any]) -> None:
        self._store.put(f"{self._name}/{name}", json.dumps(document).encode())

    def get(self, name: str) -> dict[str, Any] | None:
        """Return the document; None while there is none, or not all of it yet (some of Hadoop's stores show it while it is written)."""
        try:
            found: dict[str, Any] = json.loads(self._store.get(f"{self._name}/{name}"))
        except (ObjectMissing, ValueError):
            return None
        return found

    def forget(self, number: int) -> None:
        """Delete a request that was answered, and its result."""
        for name in (request_name(number), result_name(number)):
            self._store.delete(f"{self._name}/{name}")

    def clear(self) -> None:
        """Delete all of it. A driver that still looks takes that for the end."""
        self._store.delete_tree(self._name)
