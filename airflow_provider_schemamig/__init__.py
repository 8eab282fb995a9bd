"""schemamig: schema upgrades of Delta lakes, from Airflow.

The four names exported here are all that a migration module may import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_schemamig.core.release.steps import evolution, removal, replacement, rewrite

__version__ = "0.1.0"

__all__ = ["evolution", "removal", "replacement", "rewrite"]


def __getattr__(name: str) -> Any:
    """Import the four names when they are asked for: Python runs this file before any module of the package."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.core.release.steps"), name)
