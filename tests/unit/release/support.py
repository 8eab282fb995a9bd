"""Releases in memory, and a short way to write declarations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.jsonable import from_json, to_json
from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.release.folder.modules import Migration
from airflow_provider_schemamig.core.release.folder.read import Release, ReleaseSnapshot
from airflow_provider_schemamig.core.release.merge.chain import MergedStep, RewriteStep, merge
from airflow_provider_schemamig.core.release.merge.errors import StopInBetween
from airflow_provider_schemamig.core.release.merge.fills import columns_of
from airflow_provider_schemamig.core.release.merge.merged import Chain
from airflow_provider_schemamig.core.release.queries.query import placeholders
from airflow_provider_schemamig.core.release.steps import Step
from airflow_provider_schemamig.core.schema.model import DataType, Declaration, Field, Primitive, Struct


def f(text: str) -> Field:
    """``"a int"``, ``"a int!"`` (NOT NULL), ``"a int=5"`` (DEFAULT)."""
    text, _, default = text.partition("=")
    name, _, kind = text.partition(" ")
    return Field(name, Primitive(kind.rstrip("!")), not kind.endswith("!"), default or None)


def struct(name: str, *fields: str | Field, nullable: bool = True) -> Field:
    return Field(name, Struct(tuple(item if isinstance(item, Field) else f(item) for item in fields)), nullable)


def typed(name: str, data_type: DataType) -> Field:
    return Field(name, data_type)


def table(name: str, *fields: str | Field) -> Declaration:
    return Declaration(CollectionName(name), tuple(item if isinstance(item, Field) else f(item) for item in fields))


def v(text: str) -> Version:
    return Version.parse(text)


def release_of(*versions: tuple[str, Sequence[Declaration], Sequence[Step]]) -> Release:
    """(version, declarations, steps to it), oldest first; nothing of it is checked."""
    snapshots: dict[Version, ReleaseSnapshot] = {}
    modules: dict[Version, Migration] = {}
    for text, declarations, steps in versions:
        version = v(text)
        snapshot = ReleaseSnapshot(version, f"snapshots/{version}.sql", "")
        declared: Mapping[CollectionName, Declaration] = {d.name: d for d in declarations}
        vars(snapshot)["declarations"] = declared  # as if parsed
        snapshots[version] = snapshot
        if len(snapshots) > 1:
            file = f"migrations/{version.module_name}.py"
            modules[version] = Migration(file, "Test.\n\nWhy: to test.", tuple(steps), tuple(range(10, 10 + len(steps))))
    return Release(Path("lake"), "lake", max(snapshots), min(snapshots), snapshots, modules)


def steps_of(release: Release, source: str = "1.0.0") -> tuple[MergedStep, ...]:
    """The merged steps, which also go through JSON unharmed."""
    chain = merge(release, v(source))
    assert (chain.source, chain.target) == (v(source), release.version)
    assert from_json(Chain, json.loads(json.dumps(to_json(chain)))) == chain
    return chain.steps


def stops(release: Release, source: str = "1.0.0") -> StopInBetween:
    """The one refusal of a merge."""
    with pytest.raises(StopInBetween) as refused:
        merge(release, v(source))
    assert str(refused.value.stop) in refused.value.next_action
    return refused.value


def down_inputs(release: Release, step: RewriteStep) -> tuple[str, tuple[tuple[CollectionName, str], ...]]:
    """What the way back reads, in the target's shape: the SELECT list of its own table (``step.collection``), and those of its lookups."""
    declared = release.declarations(release.version)
    lookups = [name for name in placeholders(step.down or "") if name != step.collection]
    return columns_of(step.new), tuple((name, columns_of(declared[name])) for name in lookups)
