"""Small environments, and a way to run the command line in process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from airflow_provider_schemamig.cli.main import app
from tests.support.bytes import tree
from tests.support.product import Product
from tests.unit.cli.samples import SCHEMA_1, SCHEMA_2, STEPS_2, Ran, Run

PRODUCT = "flights_lake"
#: What of this process's environment would change what the command line does.
SETTINGS = ("SCHEMAMIG_ENV", "SCHEMAMIG_SPARK", "SCHEMAMIG_DEBUG", "FORCE_COLOR")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run ``schemamig`` with these arguments in this process."""
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: object) -> Ran:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        return Ran(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture
def product(tmp_path: Path) -> Product:
    """One product a test: ``old_release`` and ``new_release`` are its folders."""
    return Product(tmp_path / "releases", PRODUCT)


@pytest.fixture
def old_release(product: Product) -> Path:
    """Release 1.0.0: flights and planes."""
    return product.release("1.0.0", SCHEMA_1)


@pytest.fixture
def new_release(product: Product, old_release: Path) -> Path:
    """Release 1.1.0, made after ``old_release``."""
    return product.release("1.1.0", SCHEMA_2, STEPS_2)


@pytest.fixture(scope="session")
def at_first_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment at 1.0.0, to be copied."""
    folder = tmp_path_factory.mktemp("at_first_release")
    release = Product(folder / "releases", PRODUCT).release("1.0.0", SCHEMA_1)
    arguments = ["upgrade", "--env", str(folder / "lake"), "--release", str(release), "--create", "--json"]
    done = CliRunner().invoke(app, arguments, env=dict.fromkeys(SETTINGS))
    assert done.exit_code == 0, done.stdout + done.stderr
    return folder / "lake"


@pytest.fixture
def env(tmp_path: Path, old_release: Path, at_first_release: Path) -> Path:
    """An environment at 1.0.0, that of ``old_release``."""
    return shutil.copytree(at_first_release, tmp_path / "lake")


@pytest.fixture
def unchanged(env: Path) -> Iterator[Path]:
    """An environment at 1.0.0 that is, byte for byte, what it was."""
    before = tree(env)
    yield env
    assert tree(env) == before
