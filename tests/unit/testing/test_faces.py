"""The command line and the pytest plugin: documents, exit codes, items, and how to repeat what failed."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from airflow_provider_schemamig.cli.main import app
from airflow_provider_schemamig.core.testing.rehearse import rehearsal
from airflow_provider_schemamig.core.testing.results import PathVerdict
from airflow_provider_schemamig.core.testing.run_all import run_all
from tests.support.bytes import tree
from tests.unit.testing.samples import PLAIN, WITH_X, WITH_XY, history

pytestmark = pytest.mark.some(2, of="ways to run the tests of a release")

EVOLVE = 'evolution("a")'
BROKEN = PLAIN.replace(");", ", y INT NOT NULL);")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return history(tmp_path_factory.mktemp("good"), ((PLAIN, ""), (WITH_X, EVOLVE)))


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return history(tmp_path_factory.mktemp("bad"), ((PLAIN, ""), (BROKEN, EVOLVE)))


def run(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.stdout, done.stderr


def test_all_is_well(good: Path) -> None:
    before = tree(good)
    code, out, err = run("test", "--release", good, "--spark", "none", "--json")
    assert code == 0, out + err
    document = json.loads(out)
    assert document["counts"] == {"passed": 3, "failed": 0, "needs_spark": 0}
    assert document["versions"] == ["1.0.0", "1.1.0"]
    path = document["paths"][1]
    assert (path["id"], path["kind"], path["from"], path["to"], path["rows"]) == ("step[1.0.0..1.1.0]", "step", "1.0.0", "1.1.0", 2)
    assert tree(good) == before
    assert "test  3/3" in err


def test_a_failure_says_how_to_repeat_it(bad: Path) -> None:
    code, out, _ = run("test", "--release", bad, "--spark", "none", "--seed", 5, "--json")
    assert code == 1
    document = json.loads(out)
    assert document["counts"] == {"passed": 1, "failed": 2, "needs_spark": 0}
    assert document["error"]["code"] == "refused"
    first = document["refusals"][0]
    assert (first["code"], first["collection"], first["retryable"]) == ("path_failed", "a", False)
    command = re.search(r"`(schemamig test .*)`", first["next"])
    assert command is not None
    assert command[1].split()[1:] == ["test", "--release", str(bad), "--seed", "5", "--path", "1.0.0..1.1.0"]
    again = run(*command[1].split()[1:], "--spark", "none", "--json")
    assert again[0] == 1
    assert [path["id"] for path in json.loads(again[1])["paths"]] == ["step[1.0.0..1.1.0]", "direct[1.0.0..1.1.0]"]


def test_faces_for_people(bad: Path) -> None:
    code, out, _ = run("test", "--release", bad, "--spark", "none")
    assert code == 1
    assert "lake 1.1.0: 2 version(s), seed 0" in out
    assert re.search(r"1\.0\.0\.\.1\.1\.0 +failed +one version to the next", out)
    assert "1 passed, 2 failed" in out
    assert "path_failed  a" in out
    assert "[not_online]" in out


def test_without_spark_the_exit_code_says_so(tmp_path: Path) -> None:
    rewrite = 'rewrite("a", up="SELECT CAST(id AS STRING) AS id FROM {a}", down="SELECT CAST(id AS BIGINT) AS id FROM {a}")'
    folder = history(tmp_path, ((PLAIN, ""), ("CREATE TABLE a (id STRING);", rewrite)))
    code, out, err = run("test", "--release", folder, "--spark", "none")
    assert code == 3, out + err
    assert "2 needs spark" in out
    assert "only Spark can take the rows of a along" in " ".join(out.split())


def test_a_folder_that_check_refuses(tmp_path: Path) -> None:
    folder = history(tmp_path, ((PLAIN, ""), (WITH_X, EVOLVE)))
    module = folder / "migrations" / "v1_1_0.py"
    module.write_text(module.read_text().replace(EVOLVE, 'evolution("a", drop=["id"])'))
    code, out, _ = run("test", "--release", folder, "--spark", "none", "--json")
    assert code == 1
    assert {refusal["code"] for refusal in json.loads(out)["refusals"]} == {"step_not_done"}


def test_a_fixture_that_was_edited(tmp_path: Path) -> None:
    folder = history(tmp_path, ((PLAIN, ""), (WITH_X, EVOLVE)))
    file = folder / "fixtures" / "1.0.0" / "a.jsonl"
    file.write_text(file.read_text().replace('"id":', '"id":1'))
    code, out, _ = run("test", "--release", folder, "--spark", "none", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (1, "fixture_changed")


def test_faces_fixtures(tmp_path: Path) -> None:
    folder = history(tmp_path, ((PLAIN, ""),))
    (folder / "fixtures" / "1.0.0" / "a.jsonl").unlink()
    code, out, _ = run("test", "--release", folder, "--json")
    assert (code, json.loads(out)["error"]["code"]) == (1, "fixture_missing")
    code, out, _ = run("fixtures", "--release", folder, "--json")
    assert (code, json.loads(out)) == (0, {"version": "1.0.0", "files": ["fixtures/1.0.0/a.jsonl"], "beyond": {}})
    assert run("fixtures", "--release", folder)[1].startswith("All fixtures are there")


def test_one_of_two_lists(good: Path) -> None:
    assert run("test", "--release", good, "--tags", "v*", "--released", "1.0.0")[0] == 2


def test_a_backport_by_the_command(tmp_path: Path) -> None:
    from tests.support.product import Product
    from tests.unit.testing.samples import with_fixtures

    product = Product(tmp_path)
    for version, schema in (("1.0.0", PLAIN), ("1.0.1", WITH_X)):
        product.release(version, schema, EVOLVE)
    folder = with_fixtures(product.release("1.1.0", WITH_XY, EVOLVE))
    code, out, _ = run("test", "--release", folder, "--released", "1.0.0,1.1.0,1.0.1", "--path", "released[1.0.1..1.1.0]", "--json")
    document = json.loads(out)
    assert (code, document["error"]["code"]) == (1, "backport_breaks_path")
    assert document["paths"][0]["findings"][0]["code"] == "backport_breaks_path"


def test_other_processes_find_the_same(bad: Path, tmp_path: Path) -> None:
    """Spawned workers get all they need from their arguments."""
    found = [rehearsal(bad, tmp_path / name) for name in ("one", "two")]
    here = run_all(found[0], found[0].paths, workers=1)
    paths = found[1].paths * 5  # enough to be worth processes; equal paths, equal results
    there = run_all(found[1], paths, workers=2)[: len(here)]
    assert [(result.path, result.verdict, result.findings) for result in there] == [(r.path, r.verdict, r.findings) for r in here]
    assert [result.verdict for result in here] == [PathVerdict.PASSED, PathVerdict.FAILED, PathVerdict.FAILED]


# --- pytest --------------------------------------------------------------------------------------------------------------------------


def plugin(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    known = {point.name for point in importlib.metadata.entry_points(group="pytest11")}
    load = () if "schemamig" in known else ("-p", "airflow_provider_schemamig.pytest_plugin")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rA", *load, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


def test_each_path_is_an_item(bad: Path, tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text("def test_own(): pass\n")
    done = plugin(tmp_path, "--rootdir", str(tmp_path), "--schemamig-release", str(bad))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "PASSED test_own.py::test_own" in done.stdout
    assert "PASSED 1.1.0::new[new..1.1.0]" in done.stdout
    assert "FAILED 1.1.0::step[1.0.0..1.1.0]" in done.stdout
    assert "[path_failed] a: 1.0.0..1.1.0: upgrade: [not_online]" in done.stdout
    assert "Traceback" not in done.stdout


def test_an_ini_file_names_the_folder(good: Path, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nschemamig_release = {good}\n")
    done = plugin(tmp_path, "-k", "direct")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASSED 1.1.0::direct[1.0.0..1.1.0]" in done.stdout
    assert "1 passed, 2 deselected" in done.stdout


def test_a_refused_folder_is_one_failure(tmp_path: Path) -> None:
    done = plugin(tmp_path, "--schemamig-release", "nowhere")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED nowhere::folder" in done.stdout
    assert "[unreadable_file]" in done.stdout
