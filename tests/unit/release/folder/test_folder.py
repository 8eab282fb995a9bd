"""Release folders on disk: loading, and every way a folder can be wrong, all reported at once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.release.check import check, load_checked
from airflow_provider_schemamig.core.release.folder.errors import EditedModule, EditedSnapshot, FileRefusal
from airflow_provider_schemamig.core.release.folder.lock import digest
from airflow_provider_schemamig.core.release.folder.read import load_release
from airflow_provider_schemamig.exceptions import Refusal, Refused
from tests.support.product import Product

#: Something done to a folder; what it returns is nobody's business.
Damage = Callable[[Path], object]

V1, V2, V3 = Version(1, 0, 0), Version(1, 1, 0), Version(1, 10, 0)
SQL_1 = "CREATE TABLE a (x INT);\n"
SQL_2 = "CREATE TABLE a (x INT, y STRING);\n"
SQL_3 = "CREATE TABLE a (x INT, y STRING);\nCREATE TABLE b (n INT);\n"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    product = Product(tmp_path_factory.mktemp("product"))
    product.release("1.0.0", SQL_1)
    product.release("1.1.0", SQL_2, 'evolution("a")')
    return product.release("1.10.0", SQL_3)


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    """Three versions; the head is 1.10.0."""
    return Path(shutil.copytree(template, tmp_path / "lake"))


def test_a_good_folder(folder: Path) -> None:
    assert check(folder) == ()
    release = load_checked(folder)
    assert (release.name, release.version, release.min_version) == ("lake", V3, V1)
    assert release.versions == (V1, V2, V3)
    assert list(release.declarations(V3)) == ["a", "b"]
    a = CollectionName("a")
    assert release.declarations(V2)[a] is release.declarations(V3)[a]  # one text is parsed once
    assert [step.kind for step in release.steps(V2)] == ["evolution"]
    assert release.steps(V1) == ()
    assert release.modules[V2].file == "migrations/v1_1_0.py"
    assert load_release(folder) == release


def test_the_lock_is_sorted_by_kind_and_version_and_leaves_the_heads_module_out(folder: Path) -> None:
    lines = (folder / "snapshots.lock").read_text().splitlines()
    assert [line.partition(" = ")[0] for line in lines[1:]] == [
        '"migrations/v1_1_0.py"',
        '"snapshots/1.0.0.sql"',
        '"snapshots/1.1.0.sql"',
        '"snapshots/1.10.0.sql"',
    ]


# --- one thing wrong at a time ------------------------------------------------------------------------------------------------------


def write(file: str, text: str) -> Damage:
    return lambda folder: (folder / file).write_text(text)


def append(file: str, text: str) -> Damage:
    return lambda folder: (folder / file).write_text((folder / file).read_text() + text)


def replace(file: str, old: str, new: str) -> Damage:
    def edit(folder: Path) -> None:
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new))

    return edit


def remove(*files: str) -> Damage:
    def edit(folder: Path) -> None:
        for file in files:
            (folder / file).unlink()

    return edit


def garbage(file: str) -> Damage:
    return lambda folder: (folder / file).write_bytes(b"\x00\xff\xfe\x93")


def as_folder(file: str) -> Damage:
    def edit(folder: Path) -> None:
        (folder / file).unlink()
        (folder / file).mkdir()

    return edit


def as_file(name: str) -> Damage:
    def edit(folder: Path) -> None:
        shutil.rmtree(folder / name)
        (folder / name).write_text("no folder")

    return edit


def as_pipe(file: str) -> Damage:
    def edit(folder: Path) -> None:
        (folder / file).unlink()
        os.mkfifo(folder / file)

    return edit


def as_link(file: str, target: str) -> Damage:
    def edit(folder: Path) -> None:
        (folder / file).unlink()
        (folder / file).symlink_to(target)

    return edit


MODULE = '"""Doc."""\nSTEPS = []\n'

WRONG: dict[str, tuple[Damage, set[str]]] = {
    "toml broken": (write("release.toml", "name = "), {"invalid_release_toml"}),
    "toml not text": (garbage("release.toml"), {"unreadable_file"}),
    "toml missing": (remove("release.toml"), {"unreadable_file"}),
    "toml a folder": (as_folder("release.toml"), {"unreadable_file"}),
    "unknown setting": (append("release.toml", "colour = 'red'\n"), {"invalid_release_toml"}),
    "name missing": (replace("release.toml", 'name = "lake"\n', ""), {"invalid_release_toml"}),
    "name not a name": (replace("release.toml", '"lake"', '"../lake"'), {"invalid_release_toml"}),
    "version not one": (replace("release.toml", '"1.10.0"', '"1.10"'), {"invalid_release_toml"}),
    "version a number": (replace("release.toml", '"1.10.0"', "1.1"), {"invalid_release_toml"}),
    "head below minimum": (replace("release.toml", 'min_version = "1.0.0"', 'min_version = "2.0.0"'), {"version_below_minimum"}),
    "schema missing": (remove("schema.sql"), {"unreadable_file"}),
    "schema edited": (append("schema.sql", "CREATE TABLE c (n INT);\n"), {"schema_not_frozen"}),
    "schema edited and broken": (append("schema.sql", "CREATE TABLE c (\n"), {"schema_not_frozen", "sql_syntax"}),
    "schema garbage": (garbage("schema.sql"), {"unreadable_file", "schema_not_frozen"}),
    "one byte more": (append("schema.sql", "\n"), {"schema_not_frozen"}),
    "snapshot edited": (append("snapshots/1.0.0.sql", "\n"), {"edited_snapshot"}),
    "snapshot garbage": (garbage("snapshots/1.0.0.sql"), {"unreadable_file", "edited_snapshot"}),
    "head's snapshot edited with the schema": (
        lambda folder: [append(file, "\n")(folder) for file in ("schema.sql", "snapshots/1.10.0.sql")],
        {"edited_snapshot"},
    ),
    "released module edited": (append("migrations/v1_1_0.py", "\n"), {"edited_module"}),
    "head's module may be edited": (append("migrations/v1_10_0.py", "\n"), set()),
    "snapshot missing": (remove("snapshots/1.1.0.sql"), {"missing_snapshot"}),
    "minimum's snapshot missing": (remove("snapshots/1.0.0.sql"), {"missing_snapshot"}),
    "head's snapshot missing": (remove("snapshots/1.10.0.sql"), {"missing_snapshot"}),
    "module missing": (remove("migrations/v1_1_0.py"), {"missing_module"}),
    "head's module missing": (remove("migrations/v1_10_0.py"), {"missing_module"}),
    "a whole version missing, but locked": (
        remove("snapshots/1.1.0.sql", "migrations/v1_1_0.py"),
        {"missing_snapshot", "missing_module"},
    ),
    "snapshots a file": (as_file("snapshots"), {"unreadable_file", "missing_snapshot"}),
    "migrations a file": (as_file("migrations"), {"unreadable_file", "missing_module"}),
    "snapshot above head": (write("snapshots/2.0.0.sql", SQL_3), {"version_above_head"}),
    "module above head": (write("migrations/v2_0_0.py", MODULE), {"version_above_head"}),
    "snapshot below minimum": (write("snapshots/0.9.0.sql", SQL_1), {"version_below_minimum"}),
    "module of the minimum": (write("migrations/v1_0_0.py", MODULE), {"version_below_minimum"}),
    "snapshot in between without module": (write("snapshots/1.2.0.sql", SQL_2), {"missing_module", "not_locked"}),
    "module in between without snapshot": (write("migrations/v1_2_0.py", MODULE), {"missing_snapshot", "not_locked"}),
    "minimum raised": (
        replace("release.toml", 'min_version = "1.0.0"', 'min_version = "1.1.0"'),
        {"version_below_minimum"},
    ),
    "a module by another name": (write("migrations/v1.2.0.py", MODULE), {"unexpected_file"}),
    "a helper among modules": (write("migrations/helpers.py", MODULE), {"unexpected_file"}),
    "a snapshot by another name": (write("snapshots/v1.sql", SQL_1), {"unexpected_file"}),
    "a leading zero": (write("snapshots/1.01.0.sql", SQL_1), {"unexpected_file"}),
    "other files are nobody's business": (write("migrations/README.md", "hello"), set()),
    "a package file is fine": (write("migrations/__init__.py", ""), set()),
    "lock missing": (remove("snapshots.lock"), {"invalid_lock"}),
    "lock garbage": (garbage("snapshots.lock"), {"unreadable_file"}),
    "lock broken": (append("snapshots.lock", "<<<<<<< ours\n"), {"invalid_lock"}),
    "lock with two lines of one file": (append("snapshots.lock", f'"snapshots/1.0.0.sql" = "{digest(b"")}"\n'), {"duplicate_version"}),
    "conflict in the toml": (append("release.toml", "<<<<<<< a\n=======\n>>>>>>> b\n"), {"merge_conflict"}),
    "conflict in the lock": (append("snapshots.lock", "<<<<<<< a\n=======\n>>>>>>> b\n"), {"merge_conflict"}),
    "conflict in the schema": (append("schema.sql", "<<<<<<< a\n=======\n>>>>>>> b\n"), {"merge_conflict"}),
    "conflict in a snapshot": (append("snapshots/1.1.0.sql", "<<<<<<< a\n=======\n>>>>>>> b\n"), {"merge_conflict"}),
    "conflict in the head's snapshot": (append("snapshots/1.10.0.sql", "<<<<<<< a\n=======\n>>>>>>> b\n"), {"merge_conflict"}),
    "conflict in a module": (append("migrations/v1_1_0.py", "<<<<<<< a\r\n=======\r\n>>>>>>> b\r\n"), {"merge_conflict"}),
    "a question is open": (
        write("migrations/v1_10_0.py", '"""Doc.\n\nWhy: TODO say why."""\nSTEPS = []  # TODO schemamig: really?\n'),
        {"unfinished_migration"},
    ),
    "a TODO of one's own": (write("migrations/v1_10_0.py", '"""Doc. TODO schemamig: x"""\nSTEPS = []  # TODO: think\n'), set()),
    "toml too deep": (write("release.toml", "version = " + "[" * 5000), {"invalid_release_toml"}),
    "toml with a huge number": (write("release.toml", "version = " + "9" * 5000), {"invalid_release_toml"}),
    "toml with a huge hexadecimal": (replace("release.toml", '"1.10.0"', "0x" + "f" * 9000), {"invalid_release_toml"}),
    "lock too deep": (write("snapshots.lock", "x = " + "[" * 5000), {"invalid_lock"}),
    "too large": (lambda folder: (folder / "schema.sql").write_bytes(b" " * (16 * 1024 * 1024 + 1)), {"unreadable_file"}),
    "a pipe": (as_pipe("schema.sql"), {"unreadable_file"}),
    "a device": (as_link("schema.sql", "/dev/zero"), {"unreadable_file"}),
    "a name that is no text": (lambda folder: open(bytes(folder / "snapshots") + b"/\xff.sql", "wb").close(), {"unexpected_file"}),
    "lock with a stranger": (append("snapshots.lock", '"schema.sql" = "sha256:00"\n'), {"invalid_lock"}),
    "lock with a short digest": (append("snapshots.lock", '"snapshots/1.2.0.sql" = "sha256:00"\n'), {"invalid_lock"}),
    "lock of an old version": (
        append("snapshots.lock", f'"snapshots/0.9.0.sql" = "{digest(b"")}"\n'),
        {"locked_file_missing"},
    ),
    "not locked": (write("snapshots.lock", ""), {"not_locked"}),
    "module broken": (write("migrations/v1_10_0.py", "STEPS = ["), {"module_syntax"}),
    "module garbage": (garbage("migrations/v1_10_0.py"), {"unreadable_file"}),
    "step without change": (
        write("migrations/v1_10_0.py", '"""Doc."""\nfrom airflow_provider_schemamig import evolution\nSTEPS = [evolution("a")]\n'),
        {"step_explains_nothing"},
    ),
}


@pytest.mark.parametrize("damage, codes", WRONG.values(), ids=WRONG)
def test_folder_wrong(folder: Path, damage: Damage, codes: set[str]) -> None:
    damage(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    refusals = check(folder)
    assert {refusal.code for refusal in refusals} == codes
    for refusal in refusals:
        assert refusal.next_action
        assert refusal.message
        assert str(folder) not in str(refusal)
        str(refusal).encode()  # it can be printed
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    if refusals:
        with pytest.raises(Refusal) as raised:
            load_checked(folder)
        assert isinstance(raised.value, Refused) == (len(refusals) > 1)


@pytest.mark.parametrize("name, says", [("nothing", "there is no such folder"), ("lake/schema.sql", "it is not a folder")])
def test_no_folder(folder: Path, name: str, says: str) -> None:
    [refusal] = check(folder.parent / name)
    assert refusal.code == "unreadable_file"
    assert says in refusal.message


def test_a_file_that_may_not_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests may run as root, whom no mode keeps out."""
    honest = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if path.name == "schema.sql":
            raise PermissionError(13, "Permission denied", str(path))
        return honest(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    [refusal] = check(folder)
    assert "schema.sql cannot be read: Permission denied" in refusal.message


@pytest.mark.parametrize(
    "properties, told",
    [
        ("'delta.logRetentionDuration' = 'interval 10 dayz'", "cannot be set to 'interval 10 dayz'"),
        ("'delta.enableChangeDataFeed' = 'yes'", "cannot be set to 'yes'"),
        (
            "'delta.deletedFileRetentionDuration' = 'interval 10 days', 'delta.logRetentionDuration' = 'interval 5 days'",
            "removed files would be kept for longer than the log",
        ),
    ],
)
def test_a_value_of_a_property_that_no_table_takes_is_refused_where_the_release_is_checked(
    tmp_path: Path, properties: str, told: str
) -> None:
    """Once it is frozen and merged, only another release mends it."""
    product = Product(tmp_path / "product")
    folder = product.release("1.0.0", f"CREATE TABLE p (id INT) TBLPROPERTIES ({properties});")
    found = [refusal for refusal in check(folder) if refusal.code == "unsupported_property"]
    assert [(refusal.collection, told in refusal.message) for refusal in found] == [("p", True)]


def test_everything_is_reported_at_once(folder: Path) -> None:
    append("release.toml", "x = 1\n")(folder)
    [toml] = check(folder)
    assert toml.code == "invalid_release_toml"  # without the versions nothing else can be told
    replace("release.toml", "x = 1\n", "")(folder)
    append("snapshots/1.0.0.sql", "CREATE TABLE broken (\n")(folder)
    append("migrations/v1_1_0.py", "import os\n")(folder)
    write("migrations/v1_10_0.py", '"""Doc."""\nfrom airflow_provider_schemamig import removal\nSTEPS = [removal("zz")]\n')(folder)
    write("snapshots/3.0.0.sql", "")(folder)
    found = [refusal.code for refusal in check(folder)]
    assert found == ["forbidden_import", "version_above_head", "edited_snapshot", "edited_module", "sql_syntax", "unknown_collection"]


# --- what an edited file says -------------------------------------------------------------------------------------------------------


def test_an_edited_snapshot_gives_both_remedies_and_the_ready_line(folder: Path) -> None:
    edited = folder / "snapshots/1.0.0.sql"
    honest = edited.read_bytes()
    append("snapshots/1.0.0.sql", "-- hm\n")(folder)
    [refusal] = check(folder)
    assert isinstance(refusal, EditedSnapshot)
    assert (refusal.version, refusal.locked, refusal.digest) == (V1, digest(honest), digest(honest + b"-- hm\n"))
    line = f'"snapshots/1.0.0.sql" = "{refusal.digest}"'
    assert line in refusal.next_action
    assert "git checkout -- snapshots/1.0.0.sql" in refusal.next_action
    replace("snapshots.lock", f'"snapshots/1.0.0.sql" = "{refusal.locked}"', line)(folder)
    assert check(folder) == ()


def test_an_edited_module_gives_both_remedies_and_the_ready_line(folder: Path) -> None:
    append("migrations/v1_1_0.py", "# hm\n")(folder)
    [refusal] = check(folder)
    assert isinstance(refusal, EditedModule)
    replace("snapshots.lock", refusal.locked, refusal.digest)(folder)
    assert f'"migrations/v1_1_0.py" = "{refusal.digest}"' in refusal.next_action
    assert check(folder) == ()


def test_folder_what_to_delete_when_the_minimum_is_raised(folder: Path) -> None:
    replace("release.toml", 'min_version = "1.0.0"', 'min_version = "1.10.0"')(folder)
    files = [refusal.file for refusal in check(folder) if isinstance(refusal, FileRefusal)]
    assert files == ["snapshots/1.0.0.sql", "snapshots/1.1.0.sql", "migrations/v1_1_0.py", "migrations/v1_10_0.py"]
