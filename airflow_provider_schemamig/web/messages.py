"""What the api-server and its reading process say to each other: a line of JSON each way, over the process's own pipes."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

#: How large the reading process may grow, in bytes. Well below it it says that it leaves: it answers what it was asked, and another begins.
MEMORY_LIMIT = 300 * 1024 * 1024
LEAVES_AT = MEMORY_LIMIT * 4 // 5
_SALT = secrets.token_bytes(32)


def store_key(location: str, options: Mapping[str, str]) -> str:
    """Return what tells one connection's store from another's, in this process alone: one URI at two endpoints is two stores, and
    who has other credentials gets nothing that was read with these. Nobody can compute it outside, or an option from it."""
    told = json.dumps([location, dict(options)], sort_keys=True).encode()
    return hashlib.blake2b(told, key=_SALT, digest_size=32).hexdigest()


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Read a document, or carry out a verb in the name of ``who``. ``known``: when the document was made that the asker has."""

    number: int
    location: str
    options: Mapping[str, str] = field(repr=False)
    name: str
    arguments: Mapping[str, Any]
    who: str | None = None
    known: float = 0.0

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> ReadRequest:
        return cls(**json.loads(line))


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """``text``: the document as JSON, which is so since ``made`` and was read last at ``read``; ``unchanged``: it is the one that the asker
    has. ``error``: an error's document. ``leaves``: no answer, but the word that the process takes no more requests."""

    number: int
    made: float = 0.0
    read: float = 0.0
    text: str | None = None
    unchanged: bool = False
    error: Mapping[str, Any] | None = None
    leaves: bool = False

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> ReadAnswer:
        return cls(**json.loads(line))
