"""Numbers that look random and are the same for ever: of a text and a counter, by SHA-256.

Fixtures are committed, so they may not depend on what Python's ``random`` does in its next version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class SeededRandom:
    """The draws of one ``seed`` text."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._count = 0

    def below(self, limit: int) -> int:
        """Return 0 <= n < ``limit``."""
        self._count += 1
        digest = hashlib.sha256(f"{self._seed}/{self._count}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % limit

    def one_in(self, chances: int) -> bool:
        return self.below(chances) == 0

    def choice(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]
