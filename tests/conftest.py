"""What every test may use: one Spark session a process, and seeds that are printed so that a failure can be repeated.

``make test`` spreads the tests over two workers. What is dear to set up is set up once: the tests that use Spark go to one worker
(a second Java would be as slow at first as the first one was), and those of Airflow's folder and of the page's all to one, where DAG files
are parsed, and the page's app is made. What kills processes goes by its module.
"""

from __future__ import annotations

import gc
import logging
import os
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = "SCHEMAMIG_TEST_SEED"
#: The markers of tests that are dear to set up.
DEAR = ("spark", "airflow", "system")

# The JVMs of a test run live for seconds or minutes, also those of drivers and servers: the second compiler would cost a third more CPU
# than it saves. With the first alone Java keeps 48 MiB for code, which Spark's own outgrows. Java's launcher reads this.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m")

# Two cores and a JVM beside us: a deadline would measure the machine.
settings.register_profile("schemamig", deadline=None, print_blob=True)
settings.load_profile("schemamig")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """One seed for the whole run, hypothesis and the workers included: SCHEMAMIG_TEST_SEED if set, else a new one."""
    os.environ.setdefault(SEED, str(random.SystemRandom().randrange(2**31)))
    if config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = os.environ[SEED]
    # It tells of each connection that is garbage collected, also when the interpreter ends: then Airflow's handler, which took pytest's
    # captured stdout for its stream, has a closed one.
    logging.getLogger("py4j").setLevel(logging.WARNING)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Also with ``-q``, which leaves headers out, and first of all: a run that is killed has told its seed. Workers have no terminal."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        terminal.write_line(f"repeat the random choices of this run with {SEED}={os.environ[SEED]}")


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook, and pytest the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Dear tests are a group: Spark's, those of Airflow's folders, a module. Of many that are like each other all but some are for soak."""
    _leave_some(items)
    for item in items:
        if any(item.get_closest_marker(name) is not None for name in DEAR):
            module = item.nodeid.partition("::")[0]
            if "/airflow/" in module or "/web/" in module:
                group = "airflow"
            else:
                group = "spark" if item.get_closest_marker("spark") is not None else module
            item.add_marker(pytest.mark.xdist_group(group))


def _leave_some(items: list[pytest.Item]) -> None:
    cases: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        marker = item.get_closest_marker("some")
        if marker is not None and item.get_closest_marker("soak") is None:
            cases.setdefault((marker.kwargs.get("of", item.nodeid.partition("[")[0]), marker.args[0]), []).append(item)
    for (name, wanted), found in cases.items():
        count = min(len(found), wanted)
        kept = set(random.Random(f"{os.environ[SEED]} {name}").sample(range(len(found)), count))
        for number, item in enumerate(found):
            if number not in kept:
                item.add_marker(pytest.mark.soak)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep thousands of collected tests out of each look for garbage: a tenth of the time of those that make much."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


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
