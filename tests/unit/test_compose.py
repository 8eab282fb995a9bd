"""docker-compose.yml, without a Docker engine: the Compose schema, its cross-references, and that it agrees with the code.

The schema comes inside check-jsonschema's wheel. It does not see references between services, so those are checked here, and the checks are
checked themselves on files broken on purpose.
"""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_provider_schemamig.config import OPTIONS
from airflow_provider_schemamig.get_provider_info import get_provider_info

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yml"
Document = dict[str, Any]

AIRFLOW_SERVICES = {"airflow-init", "api-server", "scheduler", "dag-processor", "triggerer"}
SPARK_SERVICES = {"spark-master", "spark-worker-1", "spark-worker-2"}


@pytest.fixture(scope="module")
def compose() -> Document:
    document: Document = yaml.safe_load(COMPOSE.read_text())
    return document


def schema_check(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def needed_by(service: Document) -> dict[str, str]:
    needs = service.get("depends_on", {})
    return {name: need["condition"] for name, need in needs.items()}


def dangling(document: Document) -> Iterator[str]:
    """Every reference of a service to something that the file does not define, and every condition that can never come true."""
    services: Document = document["services"]
    for name, service in services.items():
        for needed, condition in needed_by(service).items():
            yield from (f"{name} {problem}" for problem in dangling_need(services, needed, condition))
        for volume in service.get("volumes", []):
            yield from (f"{name} {problem}" for problem in dangling_volume(document, volume.split(":")[0]))
        for network in service.get("networks", []):
            if network not in document.get("networks", {}):
                yield f"{name} is in the network {network}, which is not declared"


def dangling_need(services: Document, needed: str, condition: str) -> Iterator[str]:
    if needed not in services:
        yield f"depends on {needed}, which is not a service"
    elif condition == "service_healthy" and "healthcheck" not in services[needed]:
        yield f"waits for {needed} to be healthy, which has no healthcheck"
    elif condition == "service_completed_successfully" and services[needed].get("restart") != "no":
        yield f"waits for {needed} to end, which is started again and again"


def dangling_volume(document: Document, source: str) -> Iterator[str]:
    if source.startswith("."):
        if not (ROOT / source).exists():
            yield f"mounts {source}, which is not in the project"
    elif source not in document.get("volumes", {}):
        yield f"mounts the volume {source}, which is not declared"


def cycles(document: Document) -> Iterator[str]:
    """Services that wait for themselves, over others."""
    services: Document = document["services"]
    for start in services:
        seen: set[str] = set()
        waiting = list(needed_by(services[start]))
        while waiting:
            name = waiting.pop()
            if name == start:
                yield f"{start} waits for itself"
                break
            if name not in seen:
                seen.add(name)
                waiting.extend(needed_by(services.get(name, {})))


def published_twice(document: Document) -> Iterator[str]:
    taken: dict[str, str] = {}
    for name, service in document["services"].items():
        for port in service.get("ports", []):
            address, host_port, _ = port.split(":")
            if address != "127.0.0.1":
                yield f"{name} publishes {port} to more than this machine"
            if host_port in taken:
                yield f"{name} and {taken[host_port]} both publish {host_port}"
            taken[host_port] = name


def test_it_is_a_compose_file() -> None:
    result = schema_check(COMPOSE)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_schema_check_can_fail(tmp_path: Path, compose: Document) -> None:
    broken = copy.deepcopy(compose)
    broken["services"]["postgres"]["imagee"] = "postgres"
    path = tmp_path / "docker-compose.yml"
    path.write_text(yaml.safe_dump(broken))
    assert schema_check(path).returncode == 1


@pytest.mark.parametrize("check", [dangling, cycles, published_twice])
def test_compose_references(compose: Document, check: Callable[[Document], Iterator[str]]) -> None:
    assert list(check(compose)) == []


def _break(change: Callable[[Document], object]) -> Callable[[Document], Document]:
    def broken(document: Document) -> Document:
        result = copy.deepcopy(document)
        change(result["services"])
        return result

    return broken


@pytest.mark.parametrize(
    "check, change, problem",
    [
        (dangling, lambda s: s.pop("postgres"), "depends on postgres, which is not a service"),
        (dangling, lambda s: s["postgres"].pop("healthcheck"), "which has no healthcheck"),
        (dangling, lambda s: s["airflow-init"].update(restart="always"), "started again and again"),
        (dangling, lambda s: s["scheduler"]["volumes"].append("lakes:/lakes"), "the volume lakes, which is not declared"),
        (dangling, lambda s: s["scheduler"]["volumes"].append("./lakes:/lakes"), "which is not in the project"),
        (dangling, lambda s: s["postgres"].update(networks=["other"]), "the network other"),
        (cycles, lambda s: s["spark-master"].update(depends_on={"scheduler": {"condition": "service_started"}}), "waits for itself"),
        (published_twice, lambda s: s["postgres"].update(ports=["127.0.0.1:8080:5432"]), "both publish 8080"),
        (published_twice, lambda s: s["postgres"].update(ports=["0.0.0.0:5432:5432"]), "more than this machine"),
    ],
)
def test_the_reference_checks_can_fail(
    compose: Document, check: Callable[[Document], Iterator[str]], change: Callable[[Document], object], problem: str
) -> None:
    assert any(problem in found for found in check(_break(change)(compose)))


def test_compose_services(compose: Document) -> None:
    assert set(compose["services"]) == AIRFLOW_SERVICES | SPARK_SERVICES | {"postgres"}
    long_running = set(compose["services"]) - {"airflow-init"}
    assert {name for name in long_running if "healthcheck" not in compose["services"][name]} == set()


def test_driver_and_executors_run_the_same_image_and_see_the_same_lake(compose: Document) -> None:
    services = [compose["services"][name] for name in AIRFLOW_SERVICES | SPARK_SERVICES]
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {s["image"] for s in services} == {f"schemamig:{version}"}
    assert all("lake:/lake" in s["volumes"] for s in services)
    assert all(s["init"] for s in services)


def test_one_service_builds_the_image_and_all_others_come_after_it(compose: Document) -> None:
    """Several that build one tag at once fail with "already exists", and what is in no registry cannot be pulled."""
    ours = {name: compose["services"][name] for name in AIRFLOW_SERVICES | SPARK_SERVICES}
    assert {name for name, service in ours.items() if "build" in service} == {"airflow-init"}
    for name in set(ours) - {"airflow-init"}:
        assert ours[name]["pull_policy"] == "never", name
        assert "airflow-init" in _all_needed_by(compose["services"], name), name


def _all_needed_by(services: Document, name: str) -> set[str]:
    found = set(needed_by(services[name]))
    return found.union(*(_all_needed_by(services, needed) for needed in found))


def test_two_tasks_fit_on_the_workers(compose: Document) -> None:
    """Without spark.cores.max the first driver takes all cores for as long as its task lasts."""
    assert "SPARK_CONF_DIR=/opt/schemamig/ops/spark" in (ROOT / "Dockerfile").read_text()
    lines = (ROOT / "ops/spark/spark-defaults.conf").read_text().splitlines()
    settings = dict(line.split() for line in lines if line and not line.startswith("#"))
    workers = [compose["services"][name]["command"] for name in sorted(SPARK_SERVICES - {"spark-master"})]
    assert all("--cores 1 --memory 1g" in command for command in workers)
    assert int(settings["spark.cores.max"]) * 2 <= len(workers)
    assert settings["spark.executor.memory"] == settings["spark.driver.memory"] == "512m"


def test_every_airflow_variable_names_an_option(compose: Document) -> None:
    """AIRFLOW__SECTION__OPTION is an option of Airflow's or of ours: a misspelt one would be ignored in silence."""
    options = known_airflow_options()
    for name in AIRFLOW_SERVICES:
        for variable in compose["services"][name]["environment"]:
            match = re.fullmatch(r"AIRFLOW__([A-Z_]+?)__([A-Z_]+)", variable)
            assert match or variable == "AIRFLOW_HOME" or variable.startswith("AIRFLOW_CONN_"), variable
            if match:
                assert (match[1].lower(), match[2].lower()) in options, variable


def known_airflow_options() -> set[tuple[str, str]]:
    """Read from Airflow's own description of its configuration, without importing Airflow."""
    from importlib.metadata import files

    described = [path for path in files("apache-airflow-core") or [] if str(path).endswith("airflow/config_templates/config.yml")]
    sections = yaml.safe_load(Path(str(described[0].locate())).read_text())
    ours = get_provider_info()["config"]
    return {(section, option) for section, body in {**sections, **ours}.items() for option in body["options"]}


def test_our_section_is_among_the_known_options() -> None:
    assert {("schemamig", option.name) for option in OPTIONS} <= known_airflow_options()
    assert ("core", "executor") in known_airflow_options()


def test_connections_agree_with_the_connection_type_and_the_services(compose: Document) -> None:
    environment = compose["services"]["scheduler"]["environment"]
    ours = json.loads(environment["AIRFLOW_CONN_SCHEMAMIG_DEFAULT"])
    (kind,) = get_provider_info()["connection-types"]
    assert ours["conn_type"] == kind["connection-type"]
    assert set(ours["extra"]) <= set(kind["conn-fields"])
    spark = json.loads(environment[f"AIRFLOW_CONN_{ours['extra']['spark_conn_id'].upper()}"])
    host = spark["host"].removeprefix("spark://")
    assert f"--host {host} --port {spark['port']}" in compose["services"][host]["command"]
    for worker in sorted(SPARK_SERVICES - {host}):
        assert f"spark://{host}:{spark['port']}" in compose["services"][worker]["command"]
    assert ours["extra"]["environment_uri"].startswith("file:///lake/")


def test_addresses_inside_airflow_name_services(compose: Document) -> None:
    environment = compose["services"]["scheduler"]["environment"]
    assert "@postgres:5432/" in environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    assert environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://api-server:8080/execution/"
    assert "--port 8080" in compose["services"]["api-server"]["command"]
    assert environment["AIRFLOW__SCHEMAMIG__DEFAULT_RELEASE"].endswith("/example/flights_lake")
    assert (ROOT / "example/flights_lake/release.toml").exists()


def test_the_image_is_made_of_the_pinned_requirements() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert "RUN ops/setup.sh" in dockerfile
    assert "--require-hashes" in (ROOT / "ops/setup.sh").read_text()
    requirements = (ROOT / "requirements.txt").read_text()
    # What the compose file takes for granted is in the image: the Postgres drivers, Airflow's Spark hook, spark-class itself.
    for package in ("psycopg2-binary", "asyncpg", "apache-airflow-providers-apache-spark", "pyspark", "apache-airflow"):
        assert re.search(rf"^{package}==", requirements, re.MULTILINE), package
    assert f"FROM python:{sys.version_info.major}.{sys.version_info.minor}-" in dockerfile
    assert f"/lib/python{sys.version_info.major}.{sys.version_info.minor}/" in dockerfile
