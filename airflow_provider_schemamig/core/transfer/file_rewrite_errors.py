"""Why files that were written anew did not become the table's."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.exceptions import Conflict, Refusal


@dataclass(eq=False)
class FilesMoved(Conflict):
    """Somebody deleted, changed or compacted one of the files meanwhile; nothing was committed."""

    code = "files_moved"
    uri: str
    version: int

    @property
    def message(self) -> str:
        return f"version {self.version} of {self.uri} touched files that were being rewritten."

    @property
    def next_action(self) -> str:
        return "Try again: what is still to be rewritten is found anew."


@dataclass(eq=False)
class FilesDiffer(Refusal):
    """The new files are not what the old ones were; nothing was committed."""

    code = "files_differ"
    what: str
    expected: str

    @property
    def message(self) -> str:
        return f"the rewritten files have {self.what}, the old ones {self.expected}; nothing was committed."

    @property
    def next_action(self) -> str:
        return "Check with Spark whether the table can be read as a whole; report it with the table's DESCRIBE DETAIL."
