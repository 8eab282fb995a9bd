"""How the text of options becomes values."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from airflow_provider_schemamig.cli import options
from airflow_provider_schemamig.cli.main import app
from airflow_provider_schemamig.cli.options import local_path, parse_hold
from airflow_provider_schemamig.core.progress import silent
from airflow_provider_schemamig.core.upgrade.plan.stages import SEAL_SECONDS
from airflow_provider_schemamig.operators.base import DEFAULT_SEAL_SECONDS
from tests.unit.cli.samples import Run


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", timedelta()),
        ("90", timedelta(seconds=90)),
        ("30m", timedelta(minutes=30)),
        ("24h", timedelta(hours=24)),
        ("7d", timedelta(days=7)),
        (" 3650d ", timedelta(days=3650)),
    ],
)
def test_options_a_hold(text: str, value: timedelta) -> None:
    assert parse_hold(text) == value


@pytest.mark.parametrize("text", ["", "h", "1.5h", "-1", "1h30m", "1w", "3651d", "٣d"])
def test_options_no_hold(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_hold(text)


def test_a_folder_is_a_path_or_a_file_uri(tmp_path: Path) -> None:
    assert local_path("releases/a") == Path("releases/a")
    assert local_path(f"file://{tmp_path}") == tmp_path
    for text in ("s3://bucket/releases", "", " "):
        with pytest.raises(typer.BadParameter):
            local_path(text)


@pytest.mark.parametrize(
    "url",
    [
        "local",
        "local[2]",
        "local[*]",
        "local[2,3]",
        "spark://a:7077",
        "spark://a:7077,b:7077",
        "yarn",
        "k8s://https://a:6443",
        "sc://a:15002/;token=x",
        "sc://a",
        "sc://a/",
        "sc://[::1]:15002/;use_ssl=true;token=a%2Fb%3D",
    ],
)
def test_every_kind_of_spark_is_taken(url: str) -> None:
    assert callable(options.spark_at(url, silent))


@pytest.mark.parametrize(
    "url", ["", "a:7077", "http://a:4040", "yarn://a", "yarn-cluster", "spark://", "local-cluster[2,1,1024]", "mesos://a:5050"]
)
def test_options_what_is_no_spark_is_a_usage_error(url: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no Spark: write local"):
        options.spark_at(url, silent)


COMMANDS = get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", [name for name in COMMANDS if any(param.name == "spark" for param in COMMANDS[name].params)])
def test_an_address_that_is_no_spark_is_a_usage_error_also_where_no_job_comes_to_run(run: Run, command: str) -> None:
    told = run(command, "--spark", "yarn-cluster")
    assert (told.exit_code, "is no Spark" in told.stderr) == (2, True), told.stderr


@pytest.mark.parametrize(
    "url, fault",
    [
        ("sc://localhost:abc", "port"),
        ("sc://localhost:99999", "port"),
        ("sc://localhost:0", "port"),
        ("sc://[::1", "host"),
        ("sc:///;token=hunter2", "host"),
        ("sc://localhost:15002;token=hunter2", "slash"),
        ("sc://localhost;use_ssl=true;token=hunter2", "slash"),
        ("sc://user:hunter2@localhost", "user"),
        ("sc://user:hunt/er2@localhost:15002", "port"),
        ("sc://localhost:15002/hunter2", "slash"),
        ("sc://localhost/;token", "NAME=VALUE"),
        ("sc://localhost/;token=hunter2=", "NAME=VALUE"),
        ("sc://localhost/;token=hunt/er2", "NAME=VALUE"),
        ("sc://localhost/;Token=hunter2", "a-z"),
        ("sc://localhost/;x=hunter%0A2", "ASCII"),
        ("sc://localhost/;x=hunt%C3%A9r2", "ASCII"),
        ("sc://localhost/;use_ssl=hunter2", "neither true nor false"),
        ("sc://localhost/;session_id=hunter2", "names a session"),
    ],
)
def test_an_address_that_is_none_of_connect_is_a_usage_error_without_it(url: str, fault: str) -> None:
    with pytest.raises(typer.BadParameter, match=f"cannot be used: .*{fault}.* sc://HOST:PORT/;NAME=VALUE") as caught:
        options.spark_at(url, silent)
    assert "hunt" not in str(caught.value)


def test_a_usage_error_over_spark_shows_no_credential() -> None:
    with pytest.raises(typer.BadParameter, match="is no Spark") as caught:
        options.spark_at("SC://user:hunter2@host/;token=hunter2", silent)
    assert "hunter2" not in str(caught.value)


def test_command_line_airflow_and_core_let_writers_wait_equally_long() -> None:
    assert options.DEFAULT_SEAL_SECONDS == DEFAULT_SEAL_SECONDS == SEAL_SECONDS
