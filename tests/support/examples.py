"""How many random examples a property is tried with: a few in ``make test``, with another seed each time, and many in ``make soak``."""

from __future__ import annotations

import os


def examples(few: int) -> int:
    """Return ``few`` times SCHEMAMIG_EXAMPLES, which ``make soak`` sets."""
    return few * int(os.environ.get("SCHEMAMIG_EXAMPLES", "1"))
