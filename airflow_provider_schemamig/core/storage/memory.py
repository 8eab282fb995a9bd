"""What an open environment remembers of the places it has looked at."""

from __future__ import annotations

from typing import Any


class Memory(dict[str, Any]):
    """URI of a table -> what was seen there last (``delta.log.head``). Threads share it: an entry is put and read as a whole."""

    def __reduce__(self) -> tuple[type[Memory], tuple[()]]:
        return Memory, ()  # an environment may be sent to another process, which looks for itself
