"""`adopt`, `unmanage`, `accept` and `revert` from the shell: documents, words for people, exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tables import foreign
from tests.support.tables.adopting import Site
from tests.unit.cli.samples import Run, conforms, refused


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_from_adopt_to_unmanage(run: Run, site: Site) -> None:
    env, release, table = site.folder / "lake", site.release, site.table("flights")
    options = ("--env", env, "--release", release, "--create", "--table", f"flights={table}")
    done = run("adopt", *options, "--json")
    assert done.exit_code == 0, done.stdout
    conforms(done.document, "adopt")
    assert [found["collection"] for found in done.document["tables"]] == ["flights"]
    again = run("adopt", *options, "--json")
    conforms(again.document, "adopt")
    assert (again.exit_code, again.document["generation"], again.document["tables"]) == (0, None, [])

    foreign.add_column(table, "gate")
    shown = run("status", "--env", env, "--json")
    conforms(shown.document, "status")
    assert shown.exit_code == 3
    assert [way["way"] for way in shown.document["collections"]["flights"]["ways_on"]] == ["accept", "revert", "unmanage"]
    error = refused(run, "upgrade", "--env", env, "--release", release, code="drift", collection="flights")
    assert all(f"`schemamig {way} --collection flights`" in error["next"] for way in ("accept --release DIR", "revert", "unmanage"))
    undone = run("revert", "--env", env, "--collection", "flights", "--json")
    conforms(undone.document, "revert")
    assert [change["op"] for change in undone.document["changes"]] == ["drop_column"]

    foreign.add_column(table, "gate")
    taken = run("accept", "--env", env, "--release", release, "--json")
    conforms(taken.document, "accept")
    assert (taken.document["version"], taken.document["files"][-1]) == ("1.1.0", "release.toml")
    assert run("check", "--release", release).exit_code == 0
    assert run("plan", "--env", env, "--release", release, "--json").document["stages"] == [
        {"kind": "commit", "collection": None, "changes": []}
    ]
    gone = run("unmanage", "--env", env, "--collection", "flights", "--json")
    conforms(gone.document, "unmanage")
    assert gone.document == {"collection": "flights", "uri": f"file://{table}", "unmanaged": True, "notes": []}


def test_adopt_for_people(run: Run, site: Site) -> None:
    env, release, table = site.folder / "lake", site.release, site.table("flights")
    adopted = run("adopt", "--create", "--env", env, "--release", release, "--table", f"flights={table}")
    assert adopted.stdout.startswith("1 table(s) adopted at 1.0.0; none got a commit\n")
    assert "next: commit the release folder" in adopted.stdout
    assert run("adopt", "--env", env, "--release", release, "--table", f"flights={table}").stdout.startswith(
        "These tables are managed already"
    )
    foreign.add_column(table, "gate")
    foreign.write(table, [{"id": 3, "gate": "x"}])
    shown = " ".join(run("status", "--env", env).stdout.split())
    assert "drift flights gate: expected nothing, found STRING" in shown
    assert "accept add gate STRING" in shown
    assert "revert drop gate (loses: gate: its values are gone)" in shown
    assert "unmanage the table stays as it is and is not managed any more" in shown
    refused(run, "revert", "--env", env, "--collection", "flights", code="lossy_revert", collection="flights")
    undone = run("revert", "--env", env, "--collection", "flights", "--allow-lossy")
    assert undone.stdout.startswith("flights is as recorded again, by version 3 of its table\n  flights: drop gate\n")
    assert "nothing to undo" in run("revert", "--env", env, "--collection", "flights").stdout
    assert "nothing to take over" in run("accept", "--env", env, "--release", release).stdout
    foreign.add_column(table, "door")
    taken = run("accept", "--env", env, "--release", release, "--collection", "flights")
    assert taken.stdout.startswith("taken over into 1.1.0\n  flights: add door STRING\n  migrations/v1_1_0.py\n")
    assert "next: read the module, commit the folder, then `schemamig upgrade" in " ".join(taken.stdout.split()), "it says why already"
    gone = run("unmanage", "--env", env, "--collection", "flights")
    assert 'removal("flights")' in gone.stdout
    assert run("unmanage", "--env", env, "--collection", "flights").stdout == "flights is not managed any more.\n"


@pytest.mark.parametrize("text", ["flights", "=x", "flights=", ""])
def test_a_table_is_a_name_and_a_place(run: Run, site: Site, text: str) -> None:
    used = run("adopt", "--env", site.folder / "lake", "--release", site.release, "--table", text)
    assert used.exit_code == 2
    assert not (site.folder / "lake").exists()


def test_at_least_one_table(run: Run, site: Site) -> None:
    assert run("adopt", "--env", site.folder / "lake", "--release", site.release).exit_code == 2


def test_all_tables_below_a_folder(run: Run, site: Site) -> None:
    env, release = site.folder / "lake", site.release
    for name in ("flights", "planes", "bad-name"):
        site.table(name)
    (site.folder / "out" / "no_table").mkdir()
    options = ("--env", env, "--release", release, "--discover", site.folder / "out")
    refused(run, "adopt", *options, "--create", code="invalid_name")
    done = run("adopt", *options, "--create", "--table", f"good_name={site.folder / 'out' / 'bad-name'}", "--json")
    assert [found["collection"] for found in done.document["tables"]] == ["good_name", "flights", "planes"]
    airports = site.table("airports")
    later = run("adopt", *options, "--json").document
    assert ([found["uri"] for found in later["tables"]], later["version"]) == ([f"file://{airports}"], "1.1.0")
    assert run("adopt", *options).stdout.startswith("These tables are managed already")
    refused(run, "adopt", "--env", env, "--release", release, "--discover", airports, code="no_tables")


def test_cli_adopt_refused(run: Run, site: Site) -> None:
    env, release = site.folder / "lake", site.release
    options = ("--env", env, "--release", release)
    refused(run, "adopt", *options, "--table", f"flights={site.table('flights')}", code="no_environment")
    refused(run, "adopt", *options, "--create", "--table", f"flights={site.folder}/nothing", code="table_missing", collection="flights")
    refused(run, "unmanage", "--env", env, "--collection", "flights", code="no_environment")
    assert not env.exists() and not release.exists()


def test_a_table_where_its_own_rewrite_would_go_is_taken_with_a_note(run: Run, site: Site) -> None:
    (site.folder / "lake" / "tables").mkdir(parents=True)
    flights = site.table("flights").rename(site.folder / "lake" / "flights")
    planes = site.table("planes").rename(site.folder / "lake" / "tables" / "planes")
    tables = ("--table", f"flights={flights}", "--table", f"planes={planes}")
    shown = run("adopt", "--env", site.folder / "lake", "--release", site.release, "--create", *tables)
    assert (
        " ".join(shown.stdout.split()).count("it lies where its rewrite or replacement would go, which will be refused (inside_table)") == 1
    )


def test_where_no_folder_can_be_made_adopt_writes_nothing_and_says_so(run: Run, site: Site) -> None:
    """/proc says of a folder that is to be made that it is not there."""
    table = ("--table", f"flights={site.table('flights')}")
    for env, release in (("/proc/lake", site.release), (site.folder / "lake", "/proc/release")):
        error = refused(run, "adopt", "--create", "--env", env, "--release", release, *table, code="storage_forbidden")
        assert "its file system makes no folders" in error["message"]
    assert not site.release.exists()
    assert [path for path in (site.folder / "lake").rglob("*") if path.is_file()] == []
