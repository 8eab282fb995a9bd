"""Every error about a release folder, word for word: error_texts.txt, in the order of the table below."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_schemamig.core.release.authoring import errors as a
from airflow_provider_schemamig.core.release.folder import conflicts as c
from airflow_provider_schemamig.core.release.folder import errors as f
from airflow_provider_schemamig.core.release.folder import modules as m
from airflow_provider_schemamig.core.release.lint.model import LintError
from airflow_provider_schemamig.exceptions import Refusal
from tests.unit.release.support import v

TEXTS = Path(__file__).parent / "error_texts.txt"
OLD, NEW = f"sha256:{'0' * 64}", f"sha256:{'1' * 64}"
V1, V2, V3 = v("1.0.0"), v("1.1.0"), v("1.2.0")
SNAPSHOT, MODULE = "snapshots/1.1.0.sql", "migrations/v1_1_0.py"

ERRORS: tuple[Refusal, ...] = (
    f.UnwritableFile(file="x.html", reason="no such folder"),
    f.UnreadableFile(file="schema.sql", reason="byte 3 is not UTF-8"),
    f.UnreadableFile(file="rel", reason="there is no such folder", is_no_folder=True),
    f.InvalidReleaseToml(reason="'colour' is not a setting"),
    f.VersionBelowMinimum(file="release.toml", version=V1, minimum=V2),
    f.VersionBelowMinimum(file=SNAPSHOT, version=V2, minimum=V3),
    f.VersionAboveHead(file=MODULE, version=V2, head=V1),
    f.UnexpectedFile(file="migrations/helpers.py", expected="migrations/v1_1_0.py"),
    f.MissingSnapshot(file=SNAPSHOT, version=V2, is_head=True),
    f.MissingSnapshot(file=SNAPSHOT, version=V2, is_head=False),
    f.MissingModule(file=MODULE, version=V2),
    f.SchemaNotFrozen(file=SNAPSHOT, version=V2, digest=NEW),
    f.InvalidLock(reason="Invalid value (at line 3, column 1)"),
    f.NotLocked(file=SNAPSHOT, digest=NEW),
    f.LockedFileMissing(file=SNAPSHOT),
    f.EditedSnapshot(file=SNAPSHOT, version=V2, locked=OLD, digest=NEW),
    f.EditedSnapshot(file=SNAPSHOT, version=V2, locked=OLD, digest=NEW, is_head=True),
    f.EditedModule(file=MODULE, version=V2, locked=OLD, digest=NEW),
    f.FolderNotEmpty(file="lake", found=["a", "b", "c", "d"]),
    *(c.MergeConflict(file=file, line=2) for file in ("release.toml", "schema.sql", "snapshots.lock", SNAPSHOT, MODULE)),
    c.DuplicateVersion(name=SNAPSHOT, line=5),
    a.InvalidTitle(reason="it is empty"),
    a.VersionNotNewer(version=V1, head=V2),
    a.VersionNotReplaced(),
    a.NothingToRebase(version=V2, reason="it is on top already"),
    a.VersionTaken(file=SNAPSHOT, version=V2, target=V2),
    m.ModuleSyntax(file=MODULE, line=3, column=7, reason="invalid syntax"),
    m.MissingDocstring(file=MODULE),
    m.ForbiddenStatement(file=MODULE, line=3, statement="x = 1"),
    m.ForbiddenImport(file=MODULE, line=3, statement="import os"),
    m.StepsMissing(file=MODULE),
    m.NotLiteral(file=MODULE, line=3, found="name()"),
    m.UnfinishedMigration(file=MODULE, line=3, question="drop of hour: its values are gone when the hold is over"),
    LintError(collection="t", file=MODULE, line=3, rule="SM101", name="column-dropped", text="b is dropped"),
)


def test_error_texts() -> None:
    assert [str(error) for error in ERRORS] == TEXTS.read_text().splitlines()


def test_every_class_is_in_the_table() -> None:
    defined = {
        found
        for module in (f, c, a, m)
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, Refusal) and found.__module__ == module.__name__
    }
    bases = {f.FileRefusal, f._Edited}
    assert defined - bases <= {type(error) for error in ERRORS}


def test_each_says_what_to_do() -> None:
    """A code of its own, a sentence that ends, and an imperative after it."""
    codes = {type(error).code for error in ERRORS}
    assert len(codes) == len({type(error) for error in ERRORS})
    for error in ERRORS:
        assert error.message.endswith("."), error
        assert error.next_action[0].isupper(), error
