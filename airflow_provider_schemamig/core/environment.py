"""An environment as programs use it: its root, and readers and writers of its collections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider_schemamig.core.access.reader import Reader
    from airflow_provider_schemamig.core.access.writer import Writer


class Environment(EnvironmentRoot):
    """Where an environment lies, and the door to its rows. ``Environment.open`` reads nothing."""

    def reader(
        self, collection: str, release: Version | str | None = None, spark: SparkSession | None = None, node: str | None = None
    ) -> Reader:
        """Return a reader of ``collection`` in the shape that ``release`` declares (None: the environment's own), see
        ``core.access.reader``.

        ``spark``: a classic or Connect session that reaches the storage; None: Spark in this process, started when it is first needed.
        ``node``: the name under which the end of a hold may learn that somebody works with that release. Reads nothing without one.
        """
        # Here and not above: without reader and writer a command starts in a fifth of the time.
        from airflow_provider_schemamig.core.access.reader import Reader

        return Reader(self, collection, _version(release), spark, node)

    def writer(
        self, collection: str, release: Version | str | None = None, spark: SparkSession | None = None, node: str | None = None
    ) -> Writer:
        """Return a writer of rows in the shape that ``release`` declares, see ``core.access.writer``; arguments as in ``reader``."""
        from airflow_provider_schemamig.core.access.writer import Writer

        return Writer(self, collection, _version(release), spark, node)


def _version(release: Version | str | None) -> Version | None:
    return Version.parse(release) if isinstance(release, str) else release
