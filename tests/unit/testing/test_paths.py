"""Every path of a release with every type and every kind of step that needs no JVM; and that each rule finds what it is for.

A rule is tested by a product that breaks it: a verb that does one thing more, or one less.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter, Put
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.schema.diff.compare import Diff, diff
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.testing.rehearse import Rehearsal
from airflow_provider_schemamig.core.testing.results import PathKind, PathVerdict, UpgradePath
from airflow_provider_schemamig.core.testing.rows.table_rows import append_rows
from airflow_provider_schemamig.core.upgrade.tasks import leader
from airflow_provider_schemamig.core.upgrade.tasks import upgrade as tasks
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.bytes import tree
from tests.support.tables import foreign
from tests.unit.testing.samples import causes, history, rehearsed, take


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return history(tmp_path_factory.mktemp("history"))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    one = "CREATE TABLE a (id BIGINT NOT NULL, n INT); CREATE TABLE b (id INT);"
    two = "CREATE TABLE a (id BIGINT NOT NULL, m INT, x STRING); CREATE TABLE b (id INT);"
    return history(tmp_path_factory.mktemp("small"), ((one, ""), (two, 'evolution("a", rename={"n": "m"})')))


def test_every_path(folder: Path, tmp_path: Path) -> None:
    before = tree(folder)
    found = rehearsed(folder, tmp_path)
    results = {path.id: found.run(path) for path in found.paths}
    assert list(results) == [
        "new[new..1.2.0]",
        *("step[1.0.0..1.1.0]", "step[1.1.0..1.2.0]"),
        *("direct[1.0.0..1.2.0]", "direct[1.1.0..1.2.0]"),
    ]
    assert {result.verdict for result in results.values()} == {PathVerdict.PASSED}, [result.findings for result in results.values()]
    # a keeps the rows of all three versions, stats those since it was replaced, old is gone.
    assert [result.rows for result in results.values()] == [28, 12, 16, 12, 16]
    fenced = [text.partition(":")[0] for text in results["direct[1.0.0..1.2.0]"].fenced]
    assert fenced == ["stats", "old"], results["direct[1.0.0..1.2.0]"].fenced
    assert tree(folder) == before, "the release folder is only read"


@pytest.mark.soak
def test_the_moment_of_the_crash_depends_on_the_seed_alone(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crashes(name: str, seed: int) -> list[str]:
        seen: list[str] = []
        real = tasks.upgrade

        def upgrade(env: Environment, *arguments: Any, **options: Any) -> Any:
            try:
                return real(env, *arguments, **options)
            except BaseException as error:
                seen.append(" ".join(str(error).split()[:2]))
                raise

        with monkeypatch.context() as patch:
            patch.setattr(tasks, "upgrade", upgrade)
            take(Rehearsal(**{**vars(rehearsed(small, tmp_path / name)), "seed": seed}), "step[1.0.0..1.1.0]")
        return seen

    first = crashes("a", 1)
    assert len(first) == 1
    assert crashes("b", 1) == first
    assert crashes("c", 3) != first


def test_paths_by_name(small: Path, tmp_path: Path) -> None:
    found = rehearsed(small, tmp_path)
    assert [path.kind for path in found.find("1.0.0..1.1.0")] == [PathKind.STEP, PathKind.DIRECT]
    assert found.find("new..1.1.0") == found.find("new[new..1.1.0]")
    with pytest.raises(SchemamigError, match="unknown_upgrade_path"):
        found.find("1.1.0..1.0.0")


# --- what the product may get wrong --------------------------------------------------------------------------------------------------


def shard(env: Environment, collection: str) -> Path:
    state = LedgerReader(env).state()
    path = env.table_location(state.shard_of(CollectionName(collection)).uri).local_path
    assert path is not None
    return path


def at_target(env: Environment) -> bool:
    release = LedgerReader(env).state().release
    return release is not None and str(release.version) == "1.1.0"


def a_row_more(env: Environment) -> None:
    store = env.table_store(str(shard(env, "a")))
    head = read_head(store)
    append_rows(store, head, [{field["name"]: 7 if field["name"] == "id" else None for field in head.schema["fields"]}])


def a_row_more_for_b(env: Environment) -> None:
    foreign.write(shard(env, "b"), [{"id": 7}])


def rows_lost(env: Environment) -> None:
    foreign.write(shard(env, "b"), [], overwrite=True)


def a_column_more(env: Environment) -> None:
    foreign.add_column(shard(env, "b"), "strange")


def another_declaration(env: Environment) -> None:
    from dataclasses import replace

    from airflow_provider_schemamig.core.names import Fingerprint

    LedgerWriter(env).transact(lambda state: [Put(replace(state.objects[CollectionName("b")], fingerprint=Fingerprint("sf1:0")))])


BROKEN: dict[str, tuple[Callable[[Environment], None], set[str]]] = {
    "a row more": (a_row_more, {"rows_differ"}),
    "a row more in a collection without a step": (a_row_more_for_b, {"rows_differ"}),
    "rows lost": (rows_lost, {"rows_differ"}),
    "a column behind our back": (a_column_more, {"drift"}),
    "a fingerprint of something else": (another_declaration, {"declared_differs"}),
}


@pytest.mark.parametrize("case, path", [*((case, "step[1.0.0..1.1.0]") for case in BROKEN), ("rows lost", "direct[1.0.0..1.1.0]")])
def test_an_upgrade_that_does_too_much(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, path: str) -> None:
    harm, expected = BROKEN[case]
    real = tasks.upgrade

    def upgrade(env: Environment, *arguments: Any, **options: Any) -> Any:
        done = real(env, *arguments, **options)
        if at_target(env):
            harm(env)
        return done

    monkeypatch.setattr(tasks, "upgrade", upgrade)
    assert {cause for _, cause in causes(take(rehearsed(small, tmp_path), path))} == expected


def test_a_rollback_that_does_too_much(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harm, expected = BROKEN["a row more"]
    real = leader.rollback

    def rollback(env: Environment, **options: Any) -> Any:
        done = real(env, **options)
        harm(env)
        return done

    monkeypatch.setattr(leader, "rollback", rollback)
    assert causes(take(rehearsed(small, tmp_path), "1.0.0..1.1.0")) == {("roll back", cause) for cause in expected}


def test_a_rollback_that_does_nothing(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "rollback", lambda env, **options: None)
    assert causes(take(rehearsed(small, tmp_path), "1.0.0..1.1.0")) == {("roll back", "wrong_version")}


def test_an_upgrade_that_cannot_be_run_again(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, dead = tasks.upgrade, set[str]()

    def upgrade(env: Environment, *arguments: Any, **options: Any) -> Any:
        if env.location.uri in dead:
            raise SchemamigError
        try:
            return real(env, *arguments, **options)
        except BaseException:
            dead.add(env.location.uri)
            raise

    monkeypatch.setattr(tasks, "upgrade", upgrade)
    found = rehearsed(small, tmp_path)
    assert causes(take(found, "step[1.0.0..1.1.0]")) == {("interrupted", "error")}
    assert take(found, "direct[1.0.0..1.1.0]")[0].verdict is PathVerdict.PASSED


def test_a_new_environment_that_is_another_one(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The upgraded one has what the declared schema does not say: a column too many, and the ledger knows it."""
    from airflow_provider_schemamig.core.testing import assertions

    asked = itertools.count()

    def of_tables(before: Declaration, after: Declaration) -> Diff:
        """Of each collection the tables are compared, and then what the ledger knows of them."""
        other = after.name == "a" and next(asked) % 2 == 0
        return diff(before, replace(after, fields=after.fields[:1]) if other else after)

    monkeypatch.setattr(assertions, "diff", of_tables)
    assert causes(take(rehearsed(small, tmp_path), "new..1.1.0")) == {("compare with an upgraded environment", "schema_differs")}


def test_old_readers_that_get_other_rows(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_schemamig.core.testing.assertions import RowsReader

    real = RowsReader.texts

    def texts(self: RowsReader) -> tuple[str, ...]:
        state = self._ledger.state()
        is_old = state.release is not None and self.release != state.release.version
        return real(self)[1:] if is_old else real(self)

    monkeypatch.setattr(RowsReader, "texts", texts)
    assert {cause for _, cause in causes(take(rehearsed(small, tmp_path), "1.0.0..1.1.0"))} == {"old_reader_differs"}


def test_delta_rs_is_asked_too(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_schemamig.core.access.reader import Reader

    real = Reader.arrow
    monkeypatch.setattr(Reader, "arrow", lambda self, columns=None: real(self, columns).slice(1))
    assert causes(take(rehearsed(small, tmp_path), "step[1.0.0..1.1.0]")) == {("contract", "arrow_differs")}


# --- what an author may get wrong ----------------------------------------------------------------------------------------------------


def test_a_change_that_no_upgrade_can_make(tmp_path: Path) -> None:
    """Legal in itself, so `check` takes it. The versions after it are tested all the same, from a new environment."""
    one, two = "CREATE TABLE a (id BIGINT, n INT);", "CREATE TABLE a (id BIGINT, n INT, y INT NOT NULL);"
    three = two.replace("n INT,", "n INT, x INT,")
    folder = history(tmp_path, ((one, ""), (two, 'evolution("a")'), (three, 'evolution("a")')))
    found = rehearsed(folder, tmp_path / "work")
    results = {path.id: found.run(path) for path in found.paths}
    failed = [id_ for id_, result in results.items() if result.verdict is PathVerdict.FAILED]
    assert failed == ["step[1.0.0..1.1.0]", "direct[1.0.0..1.2.0]"]
    assert causes([results["step[1.0.0..1.1.0]"]]) == {("upgrade", "not_online")}
    assert results["new[new..1.2.0]"].notes == ("compared with an environment that began at 1.1.0",)


REWRITE = (
    ("CREATE TABLE a (id BIGINT NOT NULL, n STRING); CREATE TABLE b (id INT);", ""),
    (
        "CREATE TABLE a (id BIGINT NOT NULL, n INT); CREATE TABLE b (id INT);",
        'rewrite("a", up="SELECT id, CAST(n AS INT) AS n FROM {a}", down="SELECT id, CAST(n AS STRING) AS n FROM {a}")',
    ),
    ("CREATE TABLE a (id BIGINT NOT NULL, n INT, x INT); CREATE TABLE b (id INT);", 'evolution("a")'),
)


def test_upgrade_paths_what_needs_spark_is_said_and_not_skipped(tmp_path: Path) -> None:
    folder = history(tmp_path, REWRITE)
    found = rehearsed(folder, tmp_path / "work")
    results = {path.id: found.run(path) for path in found.paths}
    assert {id_: result.verdict.value for id_, result in results.items()} == {
        "new[new..1.2.0]": "passed",
        "step[1.0.0..1.1.0]": "needs_spark",
        "step[1.1.0..1.2.0]": "passed",
        "direct[1.0.0..1.2.0]": "needs_spark",
        "direct[1.1.0..1.2.0]": "passed",
    }
    assert results["step[1.0.0..1.1.0]"].notes == ("only Spark can take the rows of a along; without it the path is not taken",)


def test_a_path_that_has_to_stop_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_schemamig.core.release.merge.chain import merge as real
    from airflow_provider_schemamig.core.release.merge.errors import StopInBetween
    from airflow_provider_schemamig.core.testing import path_runner

    schemas = [f"CREATE TABLE a (id BIGINT{''.join(f', c{n} INT' for n in range(count))});" for count in range(4)]
    folder = history(tmp_path, tuple((schema, 'evolution("a")' if number else "") for number, schema in enumerate(schemas)))
    found = rehearsed(folder, tmp_path / "work")
    one, *_, head = found.release.versions

    def merge(release: Any, source: Any) -> Any:
        if (source, release.version) == (one, head):
            raise StopInBetween(collection="a", source=source, target=head, stop=found.release.versions[1], reason="a test says so")
        return real(release, source)

    monkeypatch.setattr(path_runner, "merge", merge)
    (result,) = [found.run(path) for path in found.paths if path == UpgradePath(PathKind.DIRECT, one, head)]
    assert result.verdict is PathVerdict.PASSED, result.findings
    assert [str(version) for version in result.via] == ["1.1.0"]


@pytest.mark.spark
@pytest.mark.soak
def test_rows_through_queries(tmp_path: Path, spark: object) -> None:
    """All of it with Spark: a rewrite there and back, and what it cannot read at the second version is found."""
    from airflow_provider_schemamig.core.spark import runner_for
    from airflow_provider_schemamig.core.testing.rehearse import rehearsal

    folder = history(tmp_path, REWRITE)
    found = rehearsal(folder, tmp_path / "work", jobs=lambda: runner_for("local[2]"))
    results = [found.run(path) for path in found.paths]
    assert {result.verdict for result in results} == {PathVerdict.PASSED}, [result.findings for result in results]


def test_a_path_that_cannot_begin_says_at_what_its_beginning_stopped(tmp_path: Path) -> None:
    table = "CREATE TABLE a (id BIGINT, n INT, CONSTRAINT pos CHECK (n > 0));"
    folder = history(tmp_path / "h", ((table, ""), (table.replace("n INT,", "n INT, m INT,"), 'evolution("a")')))
    rows = ('{"collection":"a","generator":"hand","version":"1.0.0"}', '{"id":1,"n":-5}')
    (folder / "fixtures/1.0.0/a.jsonl").write_text("".join(f"{row}\n" for row in rows))
    found = rehearsed(folder, tmp_path)
    for path in found.find("1.0.0..1.1.0"):
        (finding,) = found.run(path).findings
        assert finding.cause == "no_environment" and "constraint_violated" in finding.reason
