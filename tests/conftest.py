"""What every test may use: one Spark session a run, and seeds that are printed so that a failure can be repeated."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = "SCHEMAMIG_TEST_SEED"

# Two cores and a JVM beside us: a deadline would measure the machine.
settings.register_profile("schemamig", deadline=None, print_blob=True)
settings.load_profile("schemamig")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """One seed for the whole run, hypothesis included: SCHEMAMIG_TEST_SEED if set, else a new one."""
    os.environ.setdefault(SEED, str(random.SystemRandom().randrange(2**31)))
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = os.environ[SEED]


def pytest_report_header() -> str:
    return f"repeat the random choices of this run with {SEED}={os.environ[SEED]}"


@pytest.fixture(autouse=True)
def _seeded() -> None:
    random.seed(int(os.environ[SEED]))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of the run, with Delta, made where the product makes its own. Java and the JARs are prerequisites."""
    from airflow_provider_schemamig.core.spark.session import embedded_session

    session = embedded_session("local[2]")
    yield session
    session.stop()
