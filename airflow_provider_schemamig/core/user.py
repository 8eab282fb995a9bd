"""Who runs this process."""

from __future__ import annotations

import getpass
import os


def user_name() -> str:
    """Return the name of the user that runs this process, or the number of one without a name, as in many a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # KeyError before Python 3.13
        return str(os.getuid())
