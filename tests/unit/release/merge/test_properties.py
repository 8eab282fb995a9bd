"""Merged over several releases is the same as release by release: collections, shapes and rows.

Rows are simulated by a model of its own, which knows nothing of how the merge works.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_schemamig import evolution, removal, replacement
from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.merge.chain import Chain, Create, Evolve, Remove, Replace, RewriteStep, merge
from airflow_provider_schemamig.core.release.merge.errors import StopInBetween
from airflow_provider_schemamig.core.release.merge.validate import validate_chain
from airflow_provider_schemamig.core.release.steps import Step
from airflow_provider_schemamig.core.schema.apply.declaration import apply
from airflow_provider_schemamig.core.schema.diff.phases import phases
from airflow_provider_schemamig.core.schema.model import DataType, Declaration, Field, Primitive, Struct
from airflow_provider_schemamig.exceptions import Refused
from tests.support.examples import examples
from tests.unit.release.support import release_of

NAMES = ["p", "q", "r", "s"]
COLLECTIONS = ["a", "b", "c"]
#: What a column of a type may become; the last of each line goes through its values.
NEXT_TYPE = {"int": ["bigint", "string"], "bigint": ["decimal(20,0)", "int"], "string": ["int"], "decimal(20,0)": ["string"]}

Row = dict[str, Any]
World = dict[str, list[Row]]


# --- the model: what rows look like after each step ---------------------------------------------------------------------------------


def cast(value: Any, kind: str) -> Any:
    if value is None:
        return None
    return str(value) if kind == "string" else int(value) % 7 if kind == "int" else int(value)


def evolved(row: Row | None, old: tuple[Field, ...], new: tuple[Field, ...], renames: Mapping[str, str], prefix: str = "") -> Row | None:
    if row is None:
        return None
    sources = {f.name: f for f in old if prefix + f.name not in renames}
    sources |= {renames[prefix + f.name]: f for f in old if prefix + f.name in renames}
    result: Row = {}
    for field in new:
        before = sources.get(field.name)
        if before is None:
            result[field.name] = None if field.default is None else cast(field.default, kind_of(field.type))
        elif isinstance(field.type, Struct) and isinstance(before.type, Struct):
            result[field.name] = evolved(row[before.name], before.type.fields, field.type.fields, renames, f"{prefix}{before.name}.")
        elif field.type == before.type:
            result[field.name] = row[before.name]
        else:
            result[field.name] = cast(row[before.name], kind_of(field.type))
    return result


def kind_of(data_type: DataType) -> str:
    return data_type.name if isinstance(data_type, Primitive) else "struct"


def sample(declaration: Declaration) -> list[Row]:
    def value(field: Field, seed: int, path: str) -> Any:
        if isinstance(field.type, Struct):
            return {f.name: value(f, seed, f"{path}.{f.name}") for f in field.type.fields}
        number = sum(map(ord, f"{declaration.name}{path}")) + 10 * seed
        return str(number) if kind_of(field.type) == "string" else number

    return [{f.name: value(f, seed, f.name) for f in declaration.fields} for seed in range(2)]


def run(chain: Chain, world: World) -> World:
    """Carry out a chain on rows."""
    after = dict(world)
    for step in chain.steps:
        match step:
            case Evolve():
                after.pop(step.renamed_from or step.collection, None)
            case Remove():
                after.pop(step.collection)
            case _:
                pass
    for step in chain.steps:
        match step:
            case Evolve():
                rows = world[step.renamed_from or step.collection]
                renames = {str(path): name for path, name in step.renames.items()}
                after[step.collection] = [row for r in rows if (row := evolved(r, step.old.fields, step.new.fields, renames)) is not None]
            case Create() | Replace():
                after[step.collection] = []
            case Remove() | RewriteStep():
                pass
    return after


# --- random chains ------------------------------------------------------------------------------------------------------------------


@st.composite
def fields(draw: st.DrawFn, nested: bool = True) -> tuple[Field, ...]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    kinds: list[DataType] = [draw(st.sampled_from([Primitive("int"), Primitive("string")])) for _ in names]
    if nested and draw(st.booleans()):
        kinds[0] = Struct(draw(fields(nested=False)))
    return tuple(Field(name, kind) for name, kind in zip(names, kinds, strict=True))


@st.composite
def changed(draw: st.DrawFn, old: tuple[Field, ...], prefix: str = "") -> tuple[tuple[Field, ...], dict[str, str], list[str]]:
    """New fields, with the renames and drops that lead to them."""
    renames: dict[str, str] = {}
    drops: list[str] = []
    kept: list[Field] = []
    for field in old:
        path = prefix + field.name
        what = draw(st.sampled_from(["keep", "keep", "keep", "retype", "drop", "rename", "default"]))
        if what == "drop" and (len(old) > 1):
            drops.append(path)
            continue
        new = field
        if isinstance(field.type, Struct):
            inner, inner_renames, inner_drops = draw(changed(field.type.fields, f"{path}."))
            new = dataclasses.replace(field, type=Struct(inner))
            renames |= inner_renames
            drops += inner_drops
        elif what == "retype" and not prefix:
            new = dataclasses.replace(field, type=Primitive(draw(st.sampled_from(NEXT_TYPE[kind_of(field.type)]))))
        elif what == "default" and not prefix:
            new = dataclasses.replace(field, default=draw(st.sampled_from([None, "3", "4"])))
        if what == "rename":
            renames[path] = draw(st.sampled_from([name for name in NAMES if name != field.name]))
            new = dataclasses.replace(new, name=renames[path])
        kept.append(new)
    if len({f.name for f in kept}) < len(kept) or not kept:  # two of one name: change nothing here
        return old, {}, []
    dropped = {path.removeprefix(prefix) for path in drops}
    free = [name for name in NAMES if name not in dropped and all(name != f.name for f in kept)]
    if free and draw(st.sampled_from([True, False])):
        default = None if prefix else draw(st.sampled_from([None, None, "3", "4"]))
        kept.append(Field(draw(st.sampled_from(free)), Primitive("int"), default=default))
    return tuple(kept), renames, drops


Collections = dict[str, Declaration]


@st.composite
def next_release(draw: st.DrawFn, old: Collections) -> tuple[Collections, list[Step]]:
    new: Collections = {}
    steps: list[Step] = []
    for name, declaration in old.items():
        what = draw(st.sampled_from(["keep", "evolve", "evolve", "evolve", "move", "replace", "remove"]))
        free = [c for c in COLLECTIONS if c not in old and c not in new]
        columns, renames, drops = draw(changed(declaration.fields))
        if what not in ("evolve", "move"):
            columns, renames, drops = declaration.fields, {}, []
        if what == "remove":
            steps.append(removal(name))
        elif what == "replace":
            new[name] = Declaration(CollectionName(name), draw(fields()))
            steps.append(replacement(name))
        elif what == "move" and free:
            new[free[0]] = Declaration(CollectionName(free[0]), columns)
            steps.append(evolution(free[0], rename=renames, drop=drops, renamed_from=name))
        else:
            new[name] = Declaration(CollectionName(name), columns)
            if what != "keep":
                steps.append(evolution(name, rename=renames, drop=drops))
    for name in COLLECTIONS:
        if name not in old and name not in new and draw(st.booleans()):
            new[name] = Declaration(CollectionName(name), draw(fields()))
    return new, steps


@st.composite
def releases(draw: st.DrawFn) -> Release:
    declared: Collections = {
        n: Declaration(CollectionName(n), draw(fields())) for n in draw(st.sets(st.sampled_from(COLLECTIONS), min_size=1))
    }
    versions: list[tuple[str, list[Declaration], list[Step]]] = [("1.0.0", list(declared.values()), [])]
    for number in range(1, draw(st.integers(2, 4)) + 1):
        following, steps = draw(next_release(declared))
        candidate = (f"1.{number}.0", list(following.values()), steps)
        wrong = {refusal.collection for refusal in validate_chain(release_of(*versions[-1:], candidate))}
        if wrong:  # mostly steps without a change: leave those collections as they were
            steps = [step for step in steps if step.collection not in wrong]
            candidate = (candidate[0], list(following.values()), steps)
            if validate_chain(release_of(*versions[-1:], candidate)):
                following, candidate = declared, (candidate[0], list(declared.values()), [])
        versions.append(candidate)
        declared = following
    return release_of(*versions)


def upto(release: Release, head: Version) -> Release:
    """The folder as it was when ``head`` was its head."""
    snapshots = {version: snapshot for version, snapshot in release.snapshots.items() if version <= head}
    modules = {version: module for version, module in release.modules.items() if version <= head}
    return dataclasses.replace(release, version=head, snapshots=snapshots, modules=modules)


def step_by_step(release: Release, source: Version, world: World) -> World:
    for before, version in pairwise(release.versions):
        if before >= source:
            world = run(merge(upto(release, version), before), world)
    return world


def in_as_few_goes_as_possible(release: Release, source: Version, world: World) -> World:
    """Merge to the head, stopping where the refusals say."""
    head = release.version
    while source < head:
        try:
            chain = merge(upto(release, head), source)
        except (StopInBetween, Refused) as refused:
            refusals = refused.refusals if isinstance(refused, Refused) else [refused]
            stops = {refusal.stop for refusal in refusals if isinstance(refusal, StopInBetween)}
            assert len(stops) == 1
            [stop] = stops
            assert source < stop < head
            chain = merge(upto(release, stop), source)
        world, source = run(chain, world), chain.target
    return world


@given(releases())
@settings(max_examples=examples(50), deadline=None)
def test_merged_is_step_by_step(release: Release) -> None:
    assert validate_chain(release) == ()
    for source in release.versions[:-1]:
        world: World = {str(name): sample(declaration) for name, declaration in release.declarations(source).items()}
        found = in_as_few_goes_as_possible(release, source, world)
        assert found.keys() == {str(name) for name in release.declarations(release.version)}
        assert found == step_by_step(release, source, world)


@given(releases())
@settings(max_examples=examples(35), deadline=None)
def test_an_evolution_reaches_the_declared_shape(release: Release) -> None:
    for source in release.versions[:-1]:
        try:
            chain = merge(release, source)
        except (StopInBetween, Refused):
            continue
        for step in chain.steps:
            if isinstance(step, Evolve):
                found = phases(step.old, step.old, step.new, step.renames)
                reached = apply(step.old, (*found.expand, *found.online, *found.cutover, *found.contract))
                assert reached.fields == step.new.fields
