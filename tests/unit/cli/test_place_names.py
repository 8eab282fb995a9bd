"""Lakes and tables in folders with names that libraries like to read in another way, each beside the folder it could be taken for."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from urllib.parse import quote, unquote

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.storage import InvalidLocation, location
from tests.support.bytes import tree
from tests.support.tables.adopting import Site
from tests.unit.cli.samples import Run, refused

#: Each of their characters by itself: tests/unit/storage/test_one_folder.py.
GOOD = ["my lake", "ü or u\u0308", "col:on=1", "a&b+c;d,e $HOME", "...(x)'\"<y>!@~"]
#: And what it could be taken for; more of them in test_one_folder.py.
BAD = {"my%20lake": "my lake", "%2e%2e": "lake", "back\\slash": "back/slash", "[x]": "x", "x*": "x1"}


def flights(first: int) -> pa.Table:
    return pa.table({"flight_id": pa.array([first], pa.int64()), "origin": ["JFK"], "distance": pa.array([1], pa.int32())})


@pytest.mark.parametrize("name", GOOD, ids=ascii)
def test_a_lake_and_its_way_back_are_in_one_folder(
    tmp_path: Path, run: Run, name: str, old_release: Path, new_release: Path, at_first_release: Path
) -> None:
    lake, decoy = tmp_path / "in" / name, tmp_path / "in" / quote(name, safe="$&+;,=:@!'()~")
    if decoy != lake:
        shutil.copytree(at_first_release, decoy)
    before = tree(decoy) if decoy != lake else {}
    assert run("upgrade", "--env", lake, "--release", old_release, "--create", "--json").exit_code == 0
    env = Environment.open(str(lake))
    env.writer("flights", "1.0.0").append(flights(1))
    assert env.reader("flights").arrow()["flight_id"].to_pylist() == [1]
    assert run("upgrade", "--env", lake, "--release", new_release, "--json").exit_code == 0
    assert env.reader("planes").arrow().num_rows == 0
    for spelling in (lake, f"file://{lake}", f"file:{lake}/"):
        assert run("status", "--env", spelling, "--json").exit_code == 0
        assert run("ledger", "verify", "--env", spelling, "--json").document["findings"] == []
    assert run("ledger", "backup", "--env", lake, tmp_path / "in" / f"{name} backup").exit_code == 0
    shutil.rmtree(lake / "_schemamig")
    assert run("ledger", "restore", "--env", lake, tmp_path / "in" / f"{name} backup", "--json").exit_code == 0
    assert run("rollback", "--env", lake, "--json").exit_code == 0
    assert sorted(folder.name for folder in (tmp_path / "in").iterdir()) == sorted({name, decoy.name, f"{name} backup"})
    assert decoy == lake or tree(decoy) == before


@pytest.mark.parametrize("name", GOOD, ids=ascii)
def test_a_table_that_is_adopted_is_the_one_that_is_read_and_written(tmp_path: Path, run: Run, name: str) -> None:
    site = Site(tmp_path)
    table, decoy = site.table(name), site.table("decoy").rename(tmp_path / "out" / f"{quote(name)}%20")
    before = tree(decoy)
    adopted = run("adopt", "--create", "--env", site.env.location, "--release", site.release, "--table", f"flights={table}", "--json")
    assert adopted.exit_code == 0, adopted.stdout
    site.env.writer("flights").append(pa.table({"id": [3], "day": ["c"]}))
    assert sorted(site.env.reader("flights").arrow()["id"].to_pylist()) == [1, 2, 3]
    assert len(list((table / "_delta_log").glob("*.json"))) == 2
    assert tree(decoy) == before


@pytest.mark.parametrize(("name", "other"), BAD.items(), ids=ascii)
def test_place_names_what_could_be_another_folder_is_refused_by_every_command(
    tmp_path: Path, run: Run, name: str, other: str, old_release: Path, at_first_release: Path, env: Path
) -> None:
    top = tmp_path / "in"
    decoy = top / other
    shutil.copytree(at_first_release, decoy)
    before = tree(tmp_path)
    lake = top / name
    for command in (
        ("upgrade", "--release", old_release, "--create"),
        ("adopt", "--release", old_release, "--create", "--table", f"flights={decoy}/flights"),
        ("status",),
        ("plan", "--release", old_release),
        ("pause",),
        ("ledger", "compact"),
        ("ledger", "delete", "--collection", "holds", "--key", "2", "--force"),
        ("ledger", "backup", tmp_path / "backup"),
        ("ledger", "restore", decoy),
        ("ledger", "rebuild", "--release", old_release),
    ):
        ran = run(*command, "--env", lake, "--json")
        assert (ran.exit_code, ran.document["error"]["code"]) == (1, "invalid_location"), (command, ran.stdout)
    for spelling in (f"file://{lake}", lake / "below", f"s3://bucket/{name}"):
        assert run("pause", "--env", spelling, "--json").document["error"]["code"] == "invalid_location"
    refused(run, "adopt", "--env", env, "--release", old_release, "--table", f"t={lake}", code="invalid_location", collection="t")
    refused(run, "ledger", "backup", "--env", env, lake, code="invalid_location")
    refused(run, "replicate", "--from", env, "--to", lake, code="invalid_location")
    with pytest.raises(InvalidLocation):
        Environment.open(str(lake)).reader("flights")
    assert tree(tmp_path) == before


def test_a_table_that_was_adopted_at_such_a_place_before_is_given_back(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path)
    table = site.table("flights").rename(tmp_path / "out" / "my%20table")
    before = tree(table)
    env = ("--env", tmp_path / "lake")
    with monkeypatch.context() as patch:
        patch.setattr(location, "_MISREAD", re.compile(r"(?!)"))
        assert run("adopt", "--create", *env, "--release", site.release, "--table", f"flights={table}", "--json").exit_code == 0
    refused(run, "status", *env, code="invalid_location", collection="flights")
    assert run("unmanage", *env, "--collection", "flights", "--json").document["uri"] == f"file://{table}"
    assert run("status", *env, "--json").exit_code == 0
    assert tree(table) == before


def test_a_file_uri_is_no_second_name_of_a_lake(tmp_path: Path, run: Run, at_first_release: Path) -> None:
    """Whoever gives what ``Path.as_uri()`` or a browser makes of a path is told to give the path; the path itself works as a URI."""
    lake = tmp_path / "my lake"
    shutil.copytree(at_first_release, lake)
    before = tree(tmp_path)
    error = refused(run, "pause", "--env", lake.as_uri(), code="invalid_location")
    assert "a path is given as it is" in error["message"]
    assert tree(tmp_path) == before
    assert run("status", "--env", unquote(lake.as_uri()), "--json").exit_code == 0


def test_a_release_folder_may_have_any_name(tmp_path: Path, run: Run, old_release: Path) -> None:
    """CI makes such folders of branches' names."""
    release = tmp_path / "repo%2Fbranch [1]"
    assert run("init", release, "--json").exit_code == 0
    shutil.rmtree(release)
    shutil.copytree(old_release, release)
    for command in ("check", "snapshot", "fixtures"):
        assert run(command, "--release", release, "--json").exit_code == 0
    assert run("upgrade", "--env", tmp_path / "lake", "--release", release, "--create", "--json").exit_code == 0
