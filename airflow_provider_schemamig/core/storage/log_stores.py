"""Whether Spark's commits on S3 are made by put-if-absent, as far as the commits themselves tell.

Delta's own LogStores look whether a commit is there and then write, so that they may replace a metadata commit of ours. Ours
(``schemamig.ConditionalLogStore``) lets the store decide, and marks each object that it wrote so. What is known here is what this process
has read: the newest commit that Spark made to a table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

#: The header, without S3's prefix for users' own, and its value.
MARK = ("schemamig-log-store", "conditional")
_COMMIT = re.compile(r"(.*?)/?_delta_log/(\d{20})\.json")
#: ``commitInfo`` is a commit's first action.
_ENGINE = re.compile(rb'"engineInfo"\s*:\s*"(Apache-Spark/[^"]{0,100})')
_FIRST_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class SparkCommit:
    """``engine``: Spark's name and version, and Delta's."""

    version: int
    engine: str
    is_conditional: bool


_newest: dict[str, SparkCommit] = {}


def note(uri: str, key: str, data: bytes, attributes: Mapping[str, str]) -> None:
    """Look at an object that was read below ``uri``: whether it is a commit of Spark's, and how that was made."""
    found = _COMMIT.fullmatch(key)
    if found is None:
        return
    engine = _ENGINE.search(data, 0, _FIRST_BYTES)
    table, version = "/".join(filter(None, (uri, found[1]))), int(found[2])
    known = _newest.get(table)
    if engine is not None and (known is None or known.version <= version):
        marked = attributes.get(MARK[0]) == MARK[1]
        _newest[table] = SparkCommit(version, engine[1].decode(errors="replace"), marked)


def newest_commit(uri: str) -> SparkCommit | None:
    """Return the newest commit that Spark is known to have made to the table."""
    return _newest.get(uri)


def unconditional_commit(uri: str) -> SparkCommit | None:
    """Return the newest commit that Spark is known to have made to the table, if it was not by put-if-absent."""
    found = _newest.get(uri)
    return None if found is None or found.is_conditional else found
