"""A real project's 14 releases: loaded, checked and merged from every version to every later one."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.jsonable import from_json, to_json
from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.release.authoring.draft import draft_steps
from airflow_provider_schemamig.core.release.check import check, load_checked
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.lint.run import review
from airflow_provider_schemamig.core.release.merge.chain import Chain, Create, Evolve, Remove, Replace, RewriteStep, merge, validate_chain
from airflow_provider_schemamig.core.release.steps import Evolution, Replacement
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.changes import Cost
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.core.schema.diff.phases import phases
from airflow_provider_schemamig.core.schema.model import Declaration
from tests.history import releases, write_history

VERSIONS = [Version.parse(release.version) for release in releases()]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_history(tmp_path_factory.mktemp("airflow"))


@pytest.fixture(scope="module")
def release(folders: dict[str, Path]) -> Release:
    return load_checked(folders["3.3.0"])


def test_the_history_is_what_it_should_be() -> None:
    assert [release.version for release in releases()] == [
        *("2.6.2", "2.7.0", "2.8.0", "2.8.1", "2.9.0", "2.9.2", "2.10.0"),
        *("2.10.3", "3.0.0", "3.0.3", "3.1.0", "3.1.8", "3.2.0", "3.3.0"),
    ]
    assert [len(release.declarations) for release in releases()] == [39, 39, 39, 39, 39, 39, 45, 45, 53, 53, 58, 58, 63, 66]
    steps = [step for release in releases() for step in release.steps]
    kinds = [step.partition("(")[0] for step in steps]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"evolution": 38, "replacement": 26, "removal": 6}
    assert sum("renamed_from" in step for step in steps) == 8


def test_every_head_passes_its_check(folders: dict[str, Path]) -> None:
    assert {version: check(folder) for version, folder in folders.items()} == dict.fromkeys(folders, ())


def test_parsing_gives_the_declarations_they_were_written_from(release: Release) -> None:
    for historic in releases():
        assert release.declarations(Version.parse(historic.version)) == historic.declarations
    assert validate_chain(release) == ()


@pytest.mark.parametrize("source", VERSIONS, ids=str)
def test_merged_from_each_version_to_the_head(release: Release, source: Version) -> None:
    chain = merge(release, source)
    assert reached(release.declarations(source), chain) == release.declarations(release.version)
    assert from_json(Chain, to_json(chain)) == chain


def test_step_by_step(folders: dict[str, Path]) -> None:
    declared: dict[CollectionName, Declaration] = dict(load_checked(folders["2.6.2"]).declarations(VERSIONS[0]))
    for before, version in itertools.pairwise(VERSIONS):
        release = load_checked(folders[str(version)])
        found = reached(declared, merge(release, before))
        declared = dict(release.declarations(version))
        assert found.keys() == declared.keys()
        for name, declaration in found.items():  # a mere order needs no step
            assert diff(declaration, declared[name]).changes == () or name not in stepped(release, version)
            assert diff(declaration, declared[name]).outcome is Cost.NONE


def stepped(release: Release, version: Version) -> set[CollectionName]:
    return {step.collection for step in release.steps(version)}


def reached(declared: Mapping[CollectionName, Declaration], chain: Chain) -> dict[CollectionName, Declaration]:
    """What a chain makes of the source's declarations; evolutions by the very changes that are committed."""

    result: dict[CollectionName, Declaration] = dict(declared)
    for step in chain.steps:
        match step:
            case Evolve():
                del result[step.renamed_from or step.collection]
            case Remove():
                del result[step.collection]
            case Create():
                assert step.collection not in declared
            case Replace() | RewriteStep():
                assert step.collection in declared
    for step in chain.steps:
        match step:
            case Evolve():
                assert declared[step.renamed_from or step.collection] == step.old
                found = phases(step.old, step.old, step.new, step.renames)
                assert found.online == ()
                evolved = apply(step.old, (*found.expand, *found.cutover, *found.contract))
                result[step.collection] = dataclasses.replace(evolved, name=step.collection)
            case Create() | Replace():
                result[step.collection] = step.new
            case Remove() | RewriteStep():
                pass
    return result


def test_every_head_passes_the_lint(folders: dict[str, Path]) -> None:
    """A careful author's release has warnings, all of them about what its steps name; nothing in it is an error."""
    for version, folder in folders.items():
        reviewed = review(folder)
        assert reviewed.refusals == () and reviewed.errors == (), version
    found = {finding.rule.code for finding in review(folders["3.0.0"]).findings}
    assert {"SM101", "SM102", "SM103"} <= found


def test_a_draft_between_any_two_neighbours_names_what_the_author_named(release: Release) -> None:
    """`schemamig new` would have begun each of the 13 releases with the same drops and removals, or asked whether they are renames."""
    for before, version in itertools.pairwise(VERSIONS):
        drafts = draft_steps(release.declarations(before), release.declarations(version))
        drafted = {draft.step.collection for draft in drafts}
        for step in release.steps(version):
            if isinstance(step, Evolution) and step.renamed_from is not None:
                assert step.renamed_from in drafted
            elif not isinstance(step, Replacement):
                assert step.collection in drafted
