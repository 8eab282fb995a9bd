"""Read-only means no byte changes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from airflow_provider_schemamig.core.environment import Environment


def tree(root: Path) -> dict[str, tuple[bytes | None, int]]:
    """Every path below ``root`` with its bytes (None: a folder) and modification time."""
    found = {}
    for path in sorted(root.rglob("*")):
        content = path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(root))] = (content, path.stat().st_mtime_ns)
    return found


@contextlib.contextmanager
def unwritten(env: Environment, *, but: str | None = None) -> Iterator[None]:
    """Not a byte below the environment's root (``but`` for one folder) changes, whatever is raised inside."""
    before = _tree_of(env, but)
    try:
        yield
    finally:
        assert _tree_of(env, but) == before


def _tree_of(env: Environment, but: str | None) -> dict[str, tuple[bytes | None, int]]:
    found = tree(env.location.local_path or Path())
    return found if but is None else {name: content for name, content in found.items() if not name.startswith(but)}


def files(root: Path) -> dict[str, tuple[bytes | None, int]]:
    """``tree`` without the folders: their time changes with every attempt to put a file in."""
    return {name: found for name, found in tree(root).items() if found[0] is not None}
