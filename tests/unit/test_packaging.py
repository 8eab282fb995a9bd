"""The wheel, built offline as `make setup` and a publisher would: what is in it, and that what it promises exists."""

from __future__ import annotations

import configparser
import importlib.util
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.spark.jars import is_current, jars_folder

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    return Parser().parsestr(_read(wheel, "METADATA"))


def _read(wheel: zipfile.ZipFile, name: str) -> str:
    (member,) = [path for path in wheel.namelist() if path.endswith(f".dist-info/{name}")]
    return wheel.read(member).decode()


DATA = "airflow_provider_schemamig-0.1.0.data"


def test_the_wheel_holds_the_provider_the_jobs_and_the_dags_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    top = {path.split("/")[0] for path in wheel.namelist()}
    assert top == {"airflow_provider_schemamig", "spark_jobs", "airflow_provider_schemamig-0.1.0.dist-info", DATA}
    held = {path for path in wheel.namelist() if path.endswith(".py") and not path.startswith(DATA)}
    here = {str(path.relative_to(ROOT)) for top in ("airflow_provider_schemamig", "spark_jobs") for path in (ROOT / top).rglob("*.py")}
    assert held == here
    assert "airflow_provider_schemamig/py.typed" in wheel.namelist()


def test_the_wheel_holds_the_runbook_that_the_page_shows(wheel: zipfile.ZipFile) -> None:
    """In the source it is a link to that of the docs."""
    assert (ROOT / "airflow_provider_schemamig/core/html/runbook.txt").readlink() == Path("../../../docs/runbook.md")
    assert wheel.read("airflow_provider_schemamig/core/html/runbook.txt") == (ROOT / "docs/runbook.md").read_bytes()


def test_the_wheel_holds_the_log_store_of_its_source(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    packed = Path(wheel.extract("airflow_provider_schemamig/core/spark/log_store/schemamig-log-store.jar", tmp_path))
    assert is_current(packed)
    with zipfile.ZipFile(packed) as jar:
        (name,) = [member for member in jar.namelist() if member.endswith(".class")]
        assert (name, jar.read(name)[:4]) == ("schemamig/ConditionalLogStore.class", b"\xca\xfe\xba\xbe")


def test_the_sdist_brings_the_log_store_so_that_nothing_is_compiled_where_it_is_installed(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(tmp_path)]
    subprocess.run([*build, "--target", "sdist"], cwd=ROOT, capture_output=True, check=True, timeout=120)
    (packed,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(packed) as tar:
        tar.extractall(tmp_path, filter="data")
    nowhere = {"PATH": "/nowhere", "HOME": str(tmp_path)}  # without javac, Java, and what ``make setup`` compiled
    subprocess.run(
        [*build, "--target", "wheel"], cwd=packed.with_suffix("").with_suffix(""), env=nowhere, capture_output=True, check=True, timeout=120
    )
    (again,) = tmp_path.glob("*.whl")
    jar = "airflow_provider_schemamig/core/spark/log_store/schemamig-log-store.jar"
    with zipfile.ZipFile(again) as rebuilt:
        assert rebuilt.read(jar) == wheel.read(jar)
        assert sorted(rebuilt.namelist()) == sorted(wheel.namelist())


def test_an_editable_install_compiles_nothing(tmp_path: Path) -> None:
    """Its JAR is what ``make setup`` made."""
    build = f"from hatchling.build import build_editable; print(build_editable({str(tmp_path)!r}))"
    nowhere = {"PATH": "/nowhere", "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, env=nowhere, capture_output=True, check=True, timeout=120)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as packed:
        assert not [name for name in packed.namelist() if name.endswith(".jar")]


@pytest.mark.skipif(shutil.which("javac") is None, reason="no javac here: wheels are compiled by ecj")
def test_the_log_store_is_what_is_compiled_against_the_real_hadoop_and_delta(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """Wheels are built without their JARs, against declarations of what it calls."""
    import pyspark

    (hadoop,) = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    source = ROOT / "airflow_provider_schemamig/core/spark/log_store/ConditionalLogStore.java"
    flags = ["-source", "17", "-target", "17", "-g:none", "-Xlint:-options", "-cp", f"{hadoop}:{jars_folder() / 'delta-storage-4.4.0.jar'}"]
    subprocess.run(["javac", *flags, "-d", str(tmp_path), str(source)], check=True)
    packed = wheel.extract("airflow_provider_schemamig/core/spark/log_store/schemamig-log-store.jar", tmp_path)
    with zipfile.ZipFile(packed) as jar:
        assert jar.read("schemamig/ConditionalLogStore.class") == (tmp_path / "schemamig/ConditionalLogStore.class").read_bytes()


def test_the_wheel_installs_every_dag_where_the_docs_say(wheel: zipfile.ZipFile) -> None:
    held = {path: wheel.read(path) for path in wheel.namelist() if path.startswith(DATA)}
    assert held == {f"{DATA}/data/share/schemamig/dags/{path.name}": path.read_bytes() for path in (ROOT / "dags").glob("*.py")}
    assert "share/schemamig/dags" in (ROOT / "docs" / "airflow.md").read_text()


def test_every_airflow_package_that_is_imported_is_declared(metadata: Message) -> None:
    """Those of extras too; a distribution of Airflow's providers is named after its module."""
    files = [*(ROOT / "airflow_provider_schemamig").rglob("*.py"), *(ROOT / "dags").glob("*.py")]
    used = {
        found for path in files for found in re.findall(r"^\s*from airflow\.providers\.((?:apache\.)?\w+)", path.read_text(), re.MULTILINE)
    }
    assert "standard" in used
    declared = " ".join(metadata.get_all("Requires-Dist") or [])
    assert [name for name in used if f"apache-airflow-providers-{name.replace('.', '-')}" not in declared] == []


def test_name_and_version_agree_everywhere(metadata: Message) -> None:
    from airflow_provider_schemamig import __version__
    from airflow_provider_schemamig.get_provider_info import get_provider_info

    assert metadata["Name"] == "airflow-provider-schemamig" == get_provider_info()["package-name"]
    assert metadata["Version"] == __version__


@pytest.mark.parametrize(
    "group, name, target",
    [
        ("apache_airflow_provider", "provider_info", "airflow_provider_schemamig.get_provider_info:get_provider_info"),
        ("airflow.plugins", "schemamig", "airflow_provider_schemamig.plugins.schemamig:SchemamigPlugin"),
        ("console_scripts", "schemamig", "airflow_provider_schemamig.cli.main:main"),
    ],
)
def test_packaging_entry_points(wheel: zipfile.ZipFile, group: str, name: str, target: str) -> None:
    declared = configparser.ConfigParser(delimiters=("=",))
    declared.read_string(_read(wheel, "entry_points.txt"))
    assert declared[group][name] == target
    module, _, attribute = target.partition(":")
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None
    assert re.search(rf"^(def|class) {attribute}\b", Path(spec.origin).read_text(), re.MULTILINE), f"{module} defines no {attribute}"


def test_packaging_what_is_pinned_satisfies_what_is_declared(metadata: Message) -> None:
    from packaging.requirements import Requirement

    pinned = {name.lower(): version for name, version in re.findall(r"^([\w.-]+)==([^ ;]+)", _requirements(), re.MULTILINE)}
    for text in metadata.get_all("Requires-Dist") or []:
        requirement = Requirement(text)
        assert requirement.specifier.contains(pinned[requirement.name.lower()]), text


def test_every_pinned_package_has_hashes() -> None:
    blocks = re.split(r"\n(?=[A-Za-z0-9])", _requirements().strip())
    assert len(blocks) > 100
    assert [block.splitlines()[0] for block in blocks if "--hash=sha256:" not in block] == []


def test_packaging_what_is_wanted_is_pinned() -> None:
    """Every line of requirements.in is in requirements.txt, so the two were not edited apart."""
    from packaging.requirements import Requirement

    pinned = dict(re.findall(r"^([\w.-]+)==([^ ;]+)", _requirements(), re.MULTILINE))
    wanted = [line for line in (ROOT / "requirements.in").read_text().splitlines() if line.strip() and not line.startswith("#")]
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(pinned[requirement.name.lower()]), str(requirement)


def _requirements() -> str:
    return (ROOT / "requirements.txt").read_text()
