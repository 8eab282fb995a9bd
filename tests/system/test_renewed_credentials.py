"""On a real S3 server: credentials that expire while rows are copied. The copy goes on, with others, from where it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.storage import StorageOptions
from airflow_provider_schemamig.core.upgrade.prepare.fill import without_spark
from tests.support.product import Product
from tests.support.stores.in_between import in_between
from tests.support.stores.object_servers import ObjectServer, s3_jars, s3_server

pytestmark = [pytest.mark.spark, pytest.mark.system, pytest.mark.soak, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
FIRST = "CREATE TABLE flights (id BIGINT NOT NULL, v INT);"
SECOND = "CREATE TABLE flights (id BIGINT NOT NULL, v STRING);"
REWRITE = 'rewrite("flights", up="SELECT id, CAST(v AS STRING) AS v FROM {flights}", down="SELECT id, CAST(v AS INT) AS v FROM {flights}")'
FILES = 6
#: What S3 says, word for word.
EXPIRED = b"<?xml version='1.0'?><Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
USERS = {"before": "beforesecret", "renewed": "renewedsecret"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ObjectServer]:
    with s3_server(tmp_path / "server", users=USERS) as found:
        yield found


def keys(server: ObjectServer, user: str) -> dict[str, str]:
    return {**server.options, "aws_access_key_id": user, "aws_secret_access_key": USERS[user]}


def upgrade(env: Environment, release: Path, options: Mapping[str, str], code: int) -> Any:
    command = [sys.executable, "-m", "airflow_provider_schemamig.cli.main", "upgrade", "--env", env.location.uri, "--release", release]
    command += ["--spark", "local[2]", "--spark-jars", ",".join(map(str, s3_jars())), "--json"]
    variables = {**os.environ, **{name.upper(): value for name, value in options.items()}}
    done = subprocess.run(list(map(str, command)), cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def copied(env: Environment) -> dict[str, bytes]:
    """Each commit of the copy, as it is in the store."""
    (shard,) = [row for row in LedgerReader(env).state().shards.values() if row.generation == 2]
    store = env.table_store(shard.uri)
    names = sorted(name for name in store.names("_delta_log") if name.endswith(".json"))
    return {name: store.get(f"_delta_log/{name}") for name in names}


def test_a_copy_goes_on_once_expired_credentials_are_renewed(server: ObjectServer, tmp_path: Path) -> None:
    product = Product(tmp_path / "product")
    first, second = product.release("1.0.0", FIRST), product.release("1.1.0", SECOND, f"{REWRITE},")
    env = Environment.open(f"{server.uri}/lake", StorageOptions(keys(server, "renewed")))
    commands.upgrade(env, first, jobs=without_spark, create=True)
    for key in range(FILES):
        env.writer("flights", release="1.0.0").append(pa.table({"id": [key], "v": pa.array([key], pa.int32())}))
    commands.throttle(env, "flights", max_files=1)  # a batch a file
    batches: list[str] = []

    def count(method: str, path: str) -> None:
        if method == "PUT" and "/g2-" in path and "/_delta_log/" in path and path.endswith(".json"):
            batches.append(path)

    def refuse(headers: Mapping[str, str]) -> bytes | None:
        is_over = len(batches) > 3 and "Credential=before/" in headers.get("Authorization", headers.get("authorization", ""))
        return EXPIRED if is_over else None

    with in_between(server.endpoint, count, refuse) as endpoint:
        refused = upgrade(env, second, {**keys(server, "before"), "aws_endpoint_url": endpoint}, code=75)
        assert (refused["error"]["code"], refused["error"]["retryable"]) == ("credentials_expired", True)
        assert "beforesecret" not in json.dumps(refused)
        done = copied(env)
        assert 1 < len(done) < FILES, "it was in the middle"
        assert env.reader("flights", release="1.0.0").arrow().num_rows == FILES
        assert str(LedgerReader(env).state().release.version) == "1.0.0"  # type: ignore[union-attr]
        upgrade(env, second, {**keys(server, "renewed"), "aws_endpoint_url": endpoint}, code=0)
    assert {name: body for name, body in copied(env).items() if name in done} == done, "what was copied stayed"
    found = env.reader("flights", release="1.1.0").arrow().sort_by("id").to_pydict()
    assert found == {"id": list(range(FILES)), "v": list(map(str, range(FILES)))}
    assert commands.status(env).drifted == ()
