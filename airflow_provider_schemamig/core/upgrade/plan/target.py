"""What a deployment wants, apart from the release folder: small enough to be stored with the deployment, so that promotion plans again
from it and the tasks after preflight need no folder."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.names import CollectionName, Fingerprint, Version
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.merge.chain import Chain, Create, MergedStep, Remove, Replace, RewriteStep, merge
from airflow_provider_schemamig.core.release.merge.fills import fill_inputs, rewrite_inputs
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint, set_fingerprint
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.upgrade.plan.errors import ReleaseChanged, Unmanaged, WrongRelease
from airflow_provider_schemamig.core.upgrade.plan.leaps import taken_again
from airflow_provider_schemamig.core.upgrade.plan.stages import FillInput
from airflow_provider_schemamig.core.upgrade.plan.unreleased import from_here
from airflow_provider_schemamig.exceptions import raise_refusals


@dataclass(frozen=True, slots=True)
class Target:
    """The release to reach, and the merged steps that lead there from ``source`` (None: a new environment)."""

    name: str
    source: Version | None
    version: Version
    fingerprint: Fingerprint
    steps: tuple[MergedStep, ...]
    #: Declarations that differ from the ledger's only in comments or order.
    restated: tuple[Declaration, ...] = ()
    fill_inputs: tuple[tuple[CollectionName, tuple[FillInput, ...]], ...] = ()
    #: Rewritten collections, with the SELECT list that shows the old table to ``up``.
    projections: tuple[tuple[CollectionName, str], ...] = ()
    #: Collections of the source release that this environment gave back (``unmanage``): nothing is done about them.
    unmanaged: tuple[CollectionName, ...] = ()
    #: A change outside of a release (``alter``): the release stays, and the collections of the steps are ahead of it.
    ahead: bool = False
    #: ``EnvironmentRelease.steps`` once it is reached.
    passed: tuple[tuple[Version, str], ...] = ()

    @property
    def is_deployed(self) -> bool:
        """Return whether there is more to do than to finish what somebody else began."""
        return self.source != self.version or bool(self.steps)

    def inputs_of(self, collection: CollectionName) -> tuple[FillInput, ...]:
        return dict(self.fill_inputs).get(collection, ())

    def projection_of(self, collection: CollectionName) -> str:
        return dict(self.projections)[collection]


def check_product(release: Release, state: State | None) -> None:
    """Raise WrongRelease if the environment has another product's tables."""
    if state is not None and state.release is not None and state.release.name != release.name:
        raise WrongRelease(expected=state.release.name, found=release.name)


def target_of(release: Release, state: State | None) -> Target:
    """Return the head of ``release`` as seen from the environment. Raises the chain's refusals, all of them together."""
    source = state.release_version if state is not None else None
    check_product(release, state)
    declared = release.declarations(release.version)
    if source == release.version:
        gone = _no_longer_managed(declared, state)
        check_own_release(release, state, gone)
        return Target(
            release.name, source, release.version, _fingerprint(declared, gone), (), unmanaged=gone, passed=passed(release, state)
        )
    chain = merge(release, source)
    gone = _no_longer_managed(release.declarations(source), state) if source is not None else ()
    check_own_release(release, state, gone)
    raise_refusals(list(taken_again(release, state)) if state is not None else [])
    chain = _without(chain, gone, declared, state)
    goal = _fingerprint(declared)
    inputs, projections = _inputs(release, chain)
    read = {name for _, found in inputs for name in _names(found)}
    raise_refusals([_unmanaged(name, chain.target, state) for name in gone if name in read])
    steps = chain.steps if state is None else from_here(state, chain.steps, read)
    return Target(
        name=release.name,
        source=source,
        version=release.version,
        fingerprint=goal,
        steps=steps,
        restated=_restated(chain, declared, state),
        fill_inputs=inputs,
        projections=projections,
        unmanaged=gone,
        passed=passed(release, state),
    )


def check_own_release(release: Release, state: State | None, gone: Collection[CollectionName] = ()) -> None:
    """Raise ReleaseChanged if the folder says something else of what the environment has gone through: it would take it to another table.

    ``gone``: collections that were given back. What its own version declares is compared by fingerprint, each step by its digest.
    """
    if state is None or state.release is None:
        return
    at = state.release.version
    declared, managed = release.declarations(at), state.release_set()
    if state.release.fingerprint != _fingerprint(declared, gone):
        own = {name: fingerprint(declaration) for name, declaration in declared.items() if name not in gone}
        differs = sorted(name for name in own.keys() | managed.keys() if own.get(name) != managed.get(name))
        raise ReleaseChanged(version=str(at), changed=str(at), collections=tuple(differs))
    known = release.step_digests(at)
    for version, digest in state.release.steps:
        if known.get(version, digest) != digest:
            raise ReleaseChanged(version=str(at), changed=str(version))


def passed(release: Release, state: State | None) -> tuple[tuple[Version, str], ...]:
    """Return ``EnvironmentRelease.steps`` of an environment that ``release`` takes to its head; a new one goes through no step."""
    if state is None or state.release is None:
        return ()
    new = {version: digest for version, digest in release.step_digests(release.version).items() if version > state.release.version}
    return tuple(sorted({**dict(state.release.steps), **new}.items()))


def fingerprint_reached(state: State, target: Target) -> Fingerprint:
    """Return the fingerprint of the collections that there are once the steps are done.

    It is not the target's if some were given back or adopted since that was made.
    """
    if target.ahead:
        return set_fingerprint(state.release_set())
    reached = {step.collection: fingerprint(step.new) for step in target.steps if not isinstance(step, Remove)}
    sources = {step.old.name for step in target.steps if not isinstance(step, Create)}
    for name, item in state.objects.items():
        if name not in sources:
            reached |= state.released(item)
    return set_fingerprint(reached)


def _fingerprint(declared: Mapping[CollectionName, Declaration], without: Collection[CollectionName] = ()) -> Fingerprint:
    return set_fingerprint({name: fingerprint(declaration) for name, declaration in declared.items() if name not in without})


def _no_longer_managed(declared: Mapping[CollectionName, Declaration], state: State | None) -> tuple[CollectionName, ...]:
    """Return what the environment does not manage any more of its own release: the schemas are known, the object is gone."""
    if state is None:
        return ()
    once, managed = {name for name, _ in state.schemas}, state.release_set()
    return tuple(sorted(name for name in declared if name in once and name not in managed))


def _without(chain: Chain, gone: Collection[CollectionName], declared: Collection[CollectionName], state: State | None) -> Chain:
    """Return the chain without removals of what is not managed any more; all else that is wanted of it is refused (Unmanaged)."""
    if not gone:
        return chain
    kept = tuple(step for step in chain.steps if not (isinstance(step, Remove) and step.old.name in gone))
    wanted = {step.old.name for step in kept if not isinstance(step, Create)} | set(declared)
    raise_refusals([_unmanaged(name, chain.target, state) for name in gone if name in wanted])
    return replace(chain, steps=kept)


def _unmanaged(name: CollectionName, version: Version, state: State | None) -> Unmanaged:
    return Unmanaged(collection=name, version=str(version), is_taken=state is not None and name in state.objects)


def _names(inputs: Iterable[FillInput]) -> set[CollectionName]:
    return {found.collection for found in inputs}


def _restated(chain: Chain, declared: Mapping[CollectionName, Declaration], state: State | None) -> tuple[Declaration, ...]:
    if state is None:
        return ()
    stepped = {step.collection for step in chain.steps}
    return tuple(
        declaration
        for name, declaration in sorted(declared.items())
        if name not in stepped and name in state.objects and state.entry(name).declared != declaration
    )


Inputs = tuple[tuple[CollectionName, tuple[FillInput, ...]], ...]


def _inputs(release: Release, chain: Chain) -> tuple[Inputs, tuple[tuple[CollectionName, str], ...]]:
    """Return what fills and rewrites read beside their own table, and how the rewrites see theirs."""
    found, projections = [], []
    for step in chain.steps:
        if isinstance(step, Create | Replace) and step.fill is not None:
            inputs = fill_inputs(release, chain.source, step)
        elif isinstance(step, RewriteStep):
            own, inputs = rewrite_inputs(release, chain.source, step)
            projections.append((step.collection, own))
        else:
            continue
        found.append((step.collection, tuple(FillInput(name, projection) for name, projection in inputs)))
    return tuple(found), tuple(projections)
