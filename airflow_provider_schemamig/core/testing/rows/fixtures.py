"""Old rows that a release folder keeps: ``fixtures/<version>/<collection>.jsonl``, for each version that makes or changes the collection.

The first line says how the file came about, every other one is a row (``row_codec``). They are committed, because what old versions
wrote must not change with the tool that tests them: a file that the same generator would make otherwise was edited,
one of an older generator is taken as it is, and rows that a person wrote say ``"generator": "hand"``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.release.folder.errors import UnreadableFile
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.schema.delta_rules.partition_texts import KEPT_AS_NULL, text_partitions
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.storage import Location, StorageOptions, open_store
from airflow_provider_schemamig.core.testing.errors import (
    FixtureChanged,
    FixtureDamaged,
    FixtureMissing,
    FixtureNotCanonical,
    FixtureTooNew,
    FixtureUnexpected,
)
from airflow_provider_schemamig.core.testing.rows.generate import GENERATOR, generate
from airflow_provider_schemamig.core.testing.rows.row_codec import Row, row_of, row_text
from airflow_provider_schemamig.exceptions import Refusal

HAND = "hand"
_FILE = re.compile(r"fixtures/[^/]+/[^/]+\.jsonl")


@dataclass(frozen=True, slots=True)
class Fixture:
    """Rows of ``collection`` as ``version`` declares it, as canonical texts. ``beyond``: the CHECK that there are none for."""

    version: Version
    collection: CollectionName
    rows: tuple[str, ...]
    beyond: str | None = None


@dataclass(frozen=True)
class Fixtures:
    """All of a folder, right or not."""

    found: Mapping[tuple[Version, CollectionName], Fixture]
    refusals: tuple[Refusal, ...] = ()

    def of(self, version: Version) -> tuple[Fixture, ...]:
        """Return the fixtures that are new at ``version``."""
        return tuple(fixture for (at, _), fixture in self.found.items() if at == version)

    def newest_for(self, collection: CollectionName, version: Version) -> Fixture | None:
        """Return the rows of the collection as ``version`` declares it: of the newest version up to it that has any."""
        versions = [at for at, name in self.found if name == collection and at <= version]
        return self.found[max(versions), collection] if versions else None


@dataclass(frozen=True, slots=True)
class WrittenFixtures:
    """``files`` that were written; ``beyond``: file -> the CHECK that no row was found for, so that a person has to write some."""

    files: tuple[str, ...]
    beyond: Mapping[str, str] = field(default_factory=dict)


def fixture_file(version: Version, collection: CollectionName) -> str:
    return f"fixtures/{version}/{collection}.jsonl"


def wanted(release: Release) -> Iterator[tuple[Version, Declaration]]:
    """Yield every (version, declaration) that has a fixture: all of the oldest version, then what a version makes or changes."""
    versions = release.versions
    for declaration in release.declarations(versions[0]).values():
        yield versions[0], declaration
    for before, version in pairwise(versions):
        old = release.declarations(before)
        for name, declaration in release.declarations(version).items():
            known = old.get(name)
            if known is None or (known != declaration and fingerprint(known) != fingerprint(declaration)):
                yield version, declaration


def fixture_text(declaration: Declaration, version: Version) -> str:
    """Return the file that is generated."""
    made = generate(declaration, version)
    header: dict[str, Any] = {"collection": declaration.name, "generator": GENERATOR, "version": str(version)}
    if made.beyond is not None:
        header["beyond"] = made.beyond
    return "".join(f"{line}\n" for line in (canonical(header), *(row_text(row, declaration.fields) for row in made.rows)))


def write_fixtures(release: Release) -> WrittenFixtures:
    """Write missing fixtures, and those of the unreleased head that are now generated otherwise. Nothing else is touched."""
    store = open_store(Location.of_files(release.path), StorageOptions())
    files: list[str] = []
    beyond: dict[str, str] = {}
    for version, declaration in wanted(release):
        file = fixture_file(version, declaration.name)
        old, new = _text(release.path, file), fixture_text(declaration, version)
        header = _header(new.split("\n", 1)[0])
        is_ours = old is None or (version == release.version and _header(old.split("\n", 1)[0]).get("generator") != HAND)
        if is_ours and old != new:
            store.put(file, new.encode())
            files.append(file)
        if "beyond" in header and (is_ours or old == new):
            beyond[file] = header["beyond"]
    return WrittenFixtures(tuple(files), beyond)


def read_fixtures(release: Release) -> Fixtures:
    """Read and check all fixtures of a release. Writes nothing; everything that is wrong is in ``refusals``."""
    found: dict[tuple[Version, CollectionName], Fixture] = {}
    refusals: list[Refusal] = []
    expected = {fixture_file(version, declaration.name): (version, declaration) for version, declaration in wanted(release)}
    for file, (version, declaration) in expected.items():
        try:
            text = _text(release.path, file)
        except UnreadableFile as unreadable:
            refusals.append(unreadable)
            continue
        if text is None:
            refusals.append(FixtureMissing(collection=declaration.name, file=file))
            continue
        fixture = _checked(file, text, version, declaration, refusals, is_head=version == release.version)
        if fixture is not None:
            found[version, declaration.name] = fixture
    refusals += [FixtureUnexpected(file=file) for file in _files(release.path) if file not in expected]
    return Fixtures(found, tuple(refusals))


def completed(fixtures: Fixtures, release: Release) -> Fixtures:
    """Return ``fixtures``, with generated ones for what they do not have of ``release``."""
    found = dict(fixtures.found)
    for version, declaration in wanted(release):
        if (version, declaration.name) not in found:
            made = generate(declaration, version)
            texts = tuple(row_text(row, declaration.fields) for row in made.rows)
            found[version, declaration.name] = Fixture(version, declaration.name, texts, made.beyond)
    return Fixtures(found)


def _checked(file: str, text: str, version: Version, declaration: Declaration, refusals: list[Refusal], *, is_head: bool) -> Fixture | None:
    name = declaration.name
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]  # a text may have other ends of lines in it
    header = _header(lines[0] if lines else "")
    generator = header.get("generator")
    if generator != HAND and (not isinstance(generator, int) or generator < 1):
        reason = 'its first line is no JSON object with a "generator"'
        refusals.append(FixtureDamaged(collection=name, file=file, line=1, reason=reason))
        return None
    if isinstance(generator, int) and generator > GENERATOR:
        refusals.append(FixtureTooNew(collection=name, file=file, generator=generator, known=GENERATOR))
        return None
    if generator == GENERATOR:
        if text != fixture_text(declaration, version):
            refusals.append(FixtureChanged(collection=name, file=file, is_head=is_head))
            return None
    elif not _reencodes(file, lines, declaration, refusals):
        return None
    return Fixture(version, name, tuple(lines[1:]), header.get("beyond"))


def _reencodes(file: str, lines: list[str], declaration: Declaration, refusals: list[Refusal]) -> bool:
    """Return whether every row, read and written again, is the same text. Rows of this generator are compared as a whole instead."""
    before = len(refusals)
    for number, line in enumerate(lines[1:], start=2):
        try:
            row = row_of(line, declaration.fields)
            again = row_text(row, declaration.fields)
            again.encode()  # half of a character is no text
            _check_partitions(row, declaration)
        except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
            refusals.append(FixtureDamaged(collection=declaration.name, file=file, line=number, reason=reason))
            continue
        if again != line:
            refusals.append(FixtureNotCanonical(collection=declaration.name, file=file, line=number, expected=again))
    return len(refusals) == before


def _check_partitions(row: Row, declaration: Declaration) -> None:
    """Raise ValueError for a text that a partition keeps as NULL."""
    for name in text_partitions(declaration):
        if row[name] in KEPT_AS_NULL:
            raise ValueError(f"{name} is {row[name]!r}, which the table is partitioned by, and keeps as NULL")


def _header(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(folder: Path, file: str) -> str | None:
    """Read a file, None if there is none. One that is no text is as good as damaged: its first line says nothing. Raises UnreadableFile."""
    try:
        return (folder / file).read_bytes().decode(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnreadableFile(file=file, reason=error.strerror or str(error)) from error


def _files(folder: Path) -> list[str]:
    found = (path.relative_to(folder).as_posix() for path in (folder / "fixtures").glob("*/*.jsonl"))
    return sorted(file for file in found if _FILE.fullmatch(file))
