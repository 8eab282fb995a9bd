"""Release folders damaged at random: a typed error, never a traceback; no write by what only reads, nor by what is refused."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.authoring.new import new, rebase
from airflow_provider_schemamig.core.release.authoring.scaffold import snapshot
from airflow_provider_schemamig.core.release.check import check
from airflow_provider_schemamig.core.release.lint.run import review
from airflow_provider_schemamig.exceptions import Refusal
from tests.support.bytes import tree
from tests.support.examples import examples
from tests.support.product import Product

FILES = (
    *("release.toml", "schema.sql", "snapshots.lock", "snapshots/1.0.0.sql", "snapshots/1.1.0.sql", "snapshots/1.2.0.sql"),
    *("migrations/v1_1_0.py", "migrations/v1_2_0.py", "snapshots/1.3.0.sql", "migrations/v0_9_0.py", "snapshots/nonsense.sql"),
)
NASTY = (
    *(b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r\n", b"\x1a", b"[" * 3000, b"(" * 3000, b"9" * 5000, b"'", b'"""', b"/*", b"--", b";"),
    *(b"<<<<<<< a\n=======\n>>>>>>> b\n", b"version = 1\n", b"STEPS = [evolution()]\n", b"x = \xf0\x9f\x92\xa9", b"\xed\xa0\x80", b"\\"),
    *(b"CREATE TABLE a (x INT);", b"CREATE TABLE a (", b"DEFAULT 1 + + + ", b"CHECK (", b"STRUCT<" * 200, b"# schemamig: allow", b"```"),
    *(b'"snapshots/1.0.0.sql" = "sha256:00"\n', b"lambda: 0", b"\x0c", b"\x85", "\u2028".encode(), b"async def f(): await g", b"f'{'"),
    *(b"# TODO schemamig:", b"-- schemamig: allow SM101", b"version = 0x" + b"f" * 9000, b"x = " + b"{a=" * 2000),
)  # fmt: skip


@st.composite
def damages(draw: st.DrawFn) -> list[tuple[str, str, int, bytes]]:
    """(what, file, place in per mille, bytes) of one to three damages."""
    kinds = st.sampled_from(["insert", "insert", "cut", "flip", "replace", "delete", "folder", "copy"])
    one = st.tuples(kinds, st.sampled_from(FILES), st.integers(0, 1000), st.sampled_from(NASTY) | st.binary(max_size=20))
    return draw(st.lists(one, min_size=1, max_size=3))


def damage(folder: Path, what: str, file: str, place: int, data: bytes) -> None:
    path = folder / file
    with contextlib.suppress(OSError):  # damaged already
        content = path.read_bytes() if path.is_file() else b""
        at = len(content) * place // 1000
        match what:
            case "insert":
                path.write_bytes(content[:at] + data + content[at:])
            case "cut":
                path.write_bytes(content[:at])
            case "flip":
                path.write_bytes(content[:at] + bytes(byte ^ 0xFF for byte in content[at : at + 1]) + content[at + 1 :])
            case "replace":
                path.write_bytes(data)
            case "delete":
                path.unlink()
            case "folder":
                path.unlink(missing_ok=True)
                path.mkdir()
            case "copy":
                shutil.copy(folder / FILES[place % len(FILES)], path)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    product = Product(tmp_path_factory.mktemp("product"))
    product.release("1.0.0", "CREATE TABLE a (x INT, y STRING);\n")
    product.release("1.1.0", "CREATE TABLE a (x BIGINT);\n", 'evolution("a", drop=["y"])')
    rewrite = 'rewrite("a", up="SELECT CAST(x AS STRING) AS x FROM {a}", down="SELECT CAST(x AS BIGINT) AS x FROM {a}")'
    return product.release("1.2.0", "CREATE TABLE a (x STRING, CHECK (x > 'a')) CLUSTER BY (x);\n", rewrite)


def typed(command: Callable[[], object]) -> bool:
    """Whether a command succeeds; what it raises otherwise is typed and can be shown."""
    try:
        command()
    except Refusal as refusal:
        str(refusal).encode()
        return False
    return True


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=damages())
def test_folder_fuzz(template: Path, tmp_path_factory: pytest.TempPathFactory, found: list[tuple[str, str, int, bytes]]) -> None:
    folder = Path(shutil.copytree(template, tmp_path_factory.mktemp("fuzz") / "lake"))
    for one in found:
        damage(folder, *one)
    before = tree(folder)
    refusals = check(folder)
    for refusal in refusals:
        assert refusal.message and refusal.next_action
        str(refusal).encode()
    assert review(folder).refusals == () or refusals
    assert tree(folder) == before
    for command in (lambda: new(folder, "What"), lambda: rebase(folder, Version(1, 2, 0)), lambda: snapshot(folder)):
        before = tree(folder)
        if not typed(command):
            assert tree(folder) == before
    shutil.rmtree(folder.parent)
