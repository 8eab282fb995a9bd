"""schemamig: schema upgrades of Delta lakes, from Airflow.

The four names exported here are all that a migration module may import.
"""

from airflow_provider_schemamig.core.release.steps import evolution, removal, replacement, rewrite

__version__ = "0.1.0"

__all__ = ["evolution", "removal", "replacement", "rewrite"]
