"""Real servers of object stores on loopback: versitygw for S3, azurite for Azure, and Hadoop's S3 connector for Spark.

They come from packages, once, into a folder of this user's cache. A test is skipped only where the package manager itself is missing.
"""

from __future__ import annotations

import base64
import email.utils
import fcntl
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

VERSITYGW = "1.8.0"
AZURITE = "3.35.0"
HADOOP_AWS = "org.apache.hadoop:hadoop-aws:3.5.0"
AWS_SDK = "software.amazon.awssdk:bundle:2.35.4"
#: What pyspark brings in newer copies, or nobody loads.
_NOT_NEEDED = (
    *("org.apache.hadoop:hadoop-c*", "org.wildfly.openssl:*", "org.slf4j:*", "org.apache.hadoop.thirdparty:*", "io.netty:*"),
    "software.amazon.eventstream:*",
)
#: Azurite's one account, with the key that its documentation names.
ACCOUNT = "devstoreaccount1"
_ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_START_SECONDS = 60.0


@dataclass(frozen=True)
class ObjectServer:
    """``uri``: an empty bucket or container. ``options``: what opens it."""

    uri: str
    endpoint: str
    options: Mapping[str, str]
    pid: int

    @property
    def variables(self) -> dict[str, str]:
        """The same options as variables of an environment."""
        return {name.upper(): value for name, value in self.options.items()}


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "schemamig-tests")


def _once(name: str, manager: str, install: Sequence[str], made: str, **environment: str) -> Path:
    """Run an installation unless its outcome is there; one process at a time. Skips where its package manager is missing."""
    folder = cache_folder() / name
    if not (folder / made).exists():
        if shutil.which(manager) is None:
            pytest.skip(f"{manager} is not installed, which {name} is installed with")
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / made).exists():
                variables = {**os.environ, **{key: str(folder) if value == "." else value for key, value in environment.items()}}
                subprocess.run(["nice", "-n", "10", *install], cwd=folder, env=variables, check=True)
    return folder / made


def versitygw_program() -> Path:
    """Minutes of CPU, once."""
    package = f"github.com/versity/versitygw/cmd/versitygw@v{VERSITYGW}"
    return _once(f"versitygw-{VERSITYGW}", "go", ["go", "install", package], "versitygw", GOBIN=".")


def azurite_script() -> Path:
    install = ["npm", "install", "--no-audit", "--no-fund", "--prefix", ".", f"azurite@{AZURITE}"]
    return _once(f"azurite-{AZURITE}", "npm", install, "node_modules/azurite/dist/src/blob/main.js")


def s3_jars() -> list[Path]:
    """Hadoop's S3 connector and what it needs (690 MB), fetched as ``schemamig jars`` fetches Delta's."""
    from airflow_provider_schemamig.core.spark.jars import resolve

    folder = cache_folder() / "hadoop-aws-3.5.0"
    done = folder / "complete"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                resolve(folder, f"{HADOOP_AWS},{AWS_SDK}", "--exclude-packages", ",".join(_NOT_NEEDED))
                done.touch()
    return sorted((folder / "jars").glob("*.jar"))


@contextmanager
def s3_server(folder: Path, bucket: str = "bucket", users: Mapping[str, str] | None = None) -> Iterator[ObjectServer]:
    """A bucket of versitygw's, whose objects are files below ``folder``. ``users``: access keys with their secrets, who may do all."""
    (folder / "s3" / bucket).mkdir(parents=True)
    port = free_port()
    keys = {"ROOT_ACCESS_KEY": "test", "ROOT_SECRET_KEY": "testsecret"}
    (folder / "users").mkdir()
    command = [str(versitygw_program()), "--port", f"127.0.0.1:{port}", "--iam-dir", str(folder / "users"), "posix", str(folder / "s3")]
    options = {
        "aws_endpoint_url": f"http://127.0.0.1:{port}",
        "aws_access_key_id": keys["ROOT_ACCESS_KEY"],
        "aws_secret_access_key": keys["ROOT_SECRET_KEY"],
        "aws_region": "us-east-1",
        "aws_allow_http": "true",
    }
    with _running(command, keys, folder / "versitygw.log", options["aws_endpoint_url"]) as pid:
        for access, secret in (users or {}).items():
            _make_user(options, access, secret)
        yield ObjectServer(f"s3://{bucket}", options["aws_endpoint_url"], options, pid)


def _make_user(options: Mapping[str, str], access: str, secret: str) -> None:
    root = ("--access", options["aws_access_key_id"], "--secret", options["aws_secret_access_key"])
    made = ("create-user", "--access", access, "--secret", secret, "--role", "admin")
    command = [str(versitygw_program()), "admin", *root, "--endpoint-url", options["aws_endpoint_url"], *made]
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def azure_server(folder: Path, container: str = "box") -> Iterator[ObjectServer]:
    """A container of azurite's. It has no endpoint that Spark could use."""
    (folder / "azurite").mkdir(parents=True)
    port = free_port()
    script = azurite_script()
    command = ["node", str(script), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder / "azurite")]
    command += ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    options = {
        "azure_storage_endpoint": f"http://127.0.0.1:{port}/{ACCOUNT}",
        "azure_storage_account_name": ACCOUNT,
        "azure_storage_account_key": _ACCOUNT_KEY,
        "azure_allow_http": "true",
    }
    with _running(command, {}, folder / "azurite.log", options["azure_storage_endpoint"]) as pid:
        _make_container(options["azure_storage_endpoint"], container)
        yield ObjectServer(f"az://{container}", options["azure_storage_endpoint"], options, pid)


@contextmanager
def _running(command: Sequence[str], variables: Mapping[str, str], log: Path, url: str) -> Iterator[int]:
    with log.open("w") as output:
        process = subprocess.Popen(command, env={**os.environ, **variables}, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not _answers(url):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5)
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _make_container(endpoint: str, name: str) -> None:
    """Create a container by the one request that obstore has no call for, signed with the account's key."""
    date, version = email.utils.formatdate(usegmt=True), "2021-12-02"
    resource = f"x-ms-date:{date}\nx-ms-version:{version}\n/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    signed = hmac.new(base64.b64decode(_ACCOUNT_KEY), f"PUT{chr(10) * 12}{resource}".encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": date,
        "x-ms-version": version,
        "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(signed).decode()}",
        "Content-Length": "0",
    }
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}?restype=container", method="PUT", headers=headers)).close()
