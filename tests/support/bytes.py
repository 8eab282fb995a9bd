"""Read-only means no byte changes."""

from __future__ import annotations

from pathlib import Path


def tree(root: Path) -> dict[str, tuple[bytes | None, int]]:
    """Every path below ``root`` with its bytes (None: a folder) and modification time."""
    found = {}
    for path in sorted(root.rglob("*")):
        content = path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(root))] = (content, path.stat().st_mtime_ns)
    return found
