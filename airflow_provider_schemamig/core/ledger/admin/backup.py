"""A copy of the ledger and its plans in a folder, and the way back (``ledger backup`` and ``ledger restore``).

Byte for byte, so that versions and as-of stay what they were; but not where an environment has its ledger, so that nobody works on a backup
by mistake: it would lead the tables of its original in the same name. The manifest is written last: without it a backup does not exist.
Neither ever overwrites anything: two backups into one folder cannot mix, and a restore may be killed and run again, because the files
without which the ledger does not open go last.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.ledger.admin.first_commit import FirstCommit, first_commit_after, is_first_commit
from airflow_provider_schemamig.core.ledger.admin.verify_rows import check_rows
from airflow_provider_schemamig.core.ledger.errors import BackupUnusable, LedgerDamaged
from airflow_provider_schemamig.core.ledger.existence import no_environment, require_free_place
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, ended_in, is_at, read_history
from airflow_provider_schemamig.core.ledger.objects.plan_store import PLANS
from airflow_provider_schemamig.core.ledger.rows import DeploymentState, HoldState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.ledger.table import FOLDER, LOG
from airflow_provider_schemamig.core.names import Epoch, Generation
from airflow_provider_schemamig.core.storage import InvalidLocation, ObjectExists, ObjectMissing, ReadStore, Store, place_of
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

_MANIFEST = "backup.json"


@dataclass(frozen=True, slots=True)
class Backup:
    """``version``: the ledger version it holds; ``files``: how many. ``notes``: what whoever made or restored it should know."""

    version: int
    files: int
    notes: tuple[str, ...] = ()


def backup(env: EnvironmentRoot, folder: str) -> Backup:
    """Copy the ledger as of now to ``folder`` (a path or URI without a backup of anything else); killed, it may be run again.

    A ledger whose rows are damaged is copied, too, with a note: that is what to do before repairing it. Raises BackupUnusable,
    LedgerDamaged where a file of the ledger cannot be read, and as reading does.
    """
    reader = LedgerReader(env)
    version = reader.state().version
    rows = reader.table.scan()
    place = EnvironmentRoot.open(folder, env.options)
    target = place.store()
    _check_free(place, env, folder)
    source = env.store()
    keys = list(_keys(reader, source, version))
    if target.exists(_MANIFEST):
        made = _manifest(target, folder)
        if (made.version, made.uri, set(made.checksums)) != (version, env.location.uri, {*keys}):
            raise _taken(folder)

    def check(key: str) -> None:
        if target.exists(_kept_as(key)) and target.get(_kept_as(key)) != _of_the_ledger(source, key):
            raise _of_something_else(folder, key)

    def copy(key: str) -> str:
        data = _of_the_ledger(source, key)
        _put(target, _kept_as(key), data, _of_something_else(folder, key))
        return hashlib.sha256(data).hexdigest()

    env.for_each(check, keys)  # before anything is written
    checksums = dict(zip(keys, env.each(copy, keys), strict=True))
    manifest = {"version": version, "uri": env.location.uri, "files": checksums}
    _put(target, _MANIFEST, canonical(manifest).encode(), _taken(folder))
    found = check_rows(env, version, rows)
    notes = (f"it is not sound: {len(found)} finding(s), {found[0].code} at {found[0].where} for one",) if found else ()
    return Backup(version, len(checksums), notes)


def _check_free(place: EnvironmentRoot, env: EnvironmentRoot, folder: str) -> None:
    """Raise BackupUnusable if the place is an environment or a table, or inside of one.

    VACUUM deletes what is not the table's own, and a backup would be lost with the environment around it.
    """

    def refused(reason: str) -> BackupUnusable:
        return BackupUnusable(folder=folder, reason=reason, is_made=True)

    if place.store().names(LOG) or place_of(place.location.child(_kept_as(FOLDER))) == place_of(env.location.child(*FOLDER.split("/"))):
        raise refused("an environment is there")
    there = no_environment(place)
    if there.table is not None:
        raise refused("it is the folder of a Delta table, or inside of one, and its VACUUM deletes what is not its own")
    if there.around is not None:
        raise refused(f"it is inside of the environment {there.around}, and would be lost with it")


@dataclass(frozen=True, slots=True)
class RestoredLedger:
    """``version``: the ledger's, one more than the backup's; ``files``: how many were of the backup. ``generation`` and ``epoch``: up to
    these nothing is given out any more."""

    version: int
    files: int
    generation: Generation
    epoch: Epoch
    notes: tuple[str, ...] = ()


def restore(env: EnvironmentRoot, folder: str) -> RestoredLedger:
    """Bring a backup to an environment that has no ledger (or is half-way through restoring this very backup).

    What was lost since the backup gave out generations and epochs, and its processes may live. So the ledger opens with one more commit,
    which counts as given out whatever the backup, the history, the reports and the tables' fences show, and 2^16 more; and which has the
    next leader put its fence on every table before any work.

    Raises BackupUnusable if the backup is incomplete or altered, or another ledger is there, whose files stay as they are; NoEnvironment
    where a table or another environment is. Tables are not touched: what was done to them after the backup shows as drift.
    """
    require_free_place(env)
    source = EnvironmentRoot.open(folder, env.options).store()
    manifest = _manifest(source, folder)
    store = env.store()

    def kept(key: str) -> bytes:
        return _checked(source, folder, key, manifest.checksums[key])

    env.for_each(kept, manifest.checksums)  # all of it is read before anything is written
    _check_content(env, store, manifest.checksums, folder)
    made = FirstCommit({}, ())
    if manifest.first_commit not in _begun(env, store, manifest, folder):
        files = dict(zip(manifest.ledger, env.each(kept, manifest.ledger), strict=True))
        made = first_commit_after(env, manifest.version, files)

    def data_of(key: str) -> bytes:
        return made.files[key] if key in made.files else kept(key)

    def put(key: str) -> None:
        _put(store, key, data_of(key), _other_content(folder, key))

    env.for_each(put, [key for key in sorted({*manifest.checksums, *made.files}) if not key.startswith(LOG)])
    _put_log(env, store, manifest, folder, data_of)
    given_out = LedgerReader(env).state().given_out
    assert given_out is not None  # just written
    notes = (*made.notes, *_place_notes(env, manifest), *_lost(env))
    return RestoredLedger(manifest.version + 1, len(manifest.checksums), given_out.generation, given_out.epoch, notes)


def _check_content(env: EnvironmentRoot, store: ReadStore, checksums: Mapping[str, str], folder: str) -> None:
    """Raise BackupUnusable where a file of this name is there, and is not the one of this checksum: it is of something else."""
    there = {f"{place}/{name}" for place in {key.rpartition("/")[0] for key in checksums} for name in store.names(place)}

    def check(key: str) -> None:
        if hashlib.sha256(store.get(key)).hexdigest() != checksums[key]:
            raise _other_content(folder, key)

    env.for_each(check, sorted(there & checksums.keys()))


def _begun(env: EnvironmentRoot, store: ReadStore, manifest: _Manifest, folder: str) -> set[str]:
    """Return the keys of the log files that are there already.

    Raises BackupUnusable, unless these are what an earlier try left: a ledger that lives goes on with its own numbers.
    """
    there = {f"{LOG}/{name}" for name in store.names(LOG)}
    order = manifest.log
    place = env.location.child(*FOLDER.split("/")).uri
    if not there <= {*order} or (manifest.first_commit in there and not is_first_commit(store.get(manifest.first_commit))):
        raise BackupUnusable(folder=folder, reason=f"{env.location.uri} has another one, or has gone on with its own", in_the_way=place)
    _check_content(env, store, {key: manifest.checksums[key] for key in there if key != manifest.first_commit}, folder)
    if there != {*order[: len(there)]}:
        raise BackupUnusable(folder=folder, reason=f"{env.location.uri} has its own of before, or files of it", in_the_way=place)
    return there


def _put_log(env: EnvironmentRoot, store: Store, manifest: _Manifest, folder: str, data_of: Callable[[str], bytes]) -> None:
    """Write the log from its end backwards, as a log can be opened only once its beginning is there.

    Whoever makes another ledger meanwhile writes the same beginning, and only one of two gets it. The other one takes back the files that
    it wrote: those of the log only, because without a log nothing reads other files, and a twin may rely on them.
    """
    there = _begun(env, store, manifest, folder)
    put: list[str] = []
    try:
        todo = [key for key in manifest.log if key not in there]
        if manifest.first_commit in todo and _other_try_made_it(store, manifest.first_commit):
            todo.remove(manifest.first_commit)
        for key, data in zip(todo, env.each(data_of, todo), strict=True):
            try:
                store.put_if_absent(key, data)
                put.append(key)
            except ObjectExists as error:
                if store.get(key) != data and not (key == manifest.first_commit and _other_try_made_it(store, key)):
                    raise _other_content(folder, key) from error
    except BackupUnusable:
        for key in reversed(put):
            store.delete(key)
        raise


def _other_try_made_it(store: ReadStore, key: str) -> bool:
    """Return whether another try of this restore put its own commit on top. Its data lies there already."""
    return store.exists(key) and is_first_commit(store.get(key))


def _other_content(folder: str, key: str) -> BackupUnusable:
    return BackupUnusable(folder=folder, reason=f"{key} is there with other content")


def _place_notes(env: EnvironmentRoot, manifest: _Manifest) -> Iterator[str]:
    if manifest.uri is None or manifest.uri == env.location.uri:
        return
    yield f"this backup is of {manifest.uri}: if that environment still has its ledger, two have one id now; upgrade only one of them"
    shared = sorted(uri for uri in _tables(env) if not uri.startswith(f"{env.location.uri}/"))
    if shared:
        yield f"{len(shared)} table(s) outside of the root belong to both, {shared[0]} for one"


def _lost(env: EnvironmentRoot) -> Iterator[str]:
    """Yield notes on the deployments that went further, by the audit log, than the backup says: the tables are there, the ledger is not."""
    try:
        state, entries = LedgerReader(env).state(), read_history(env)
        found = [entry for entry in entries if entry.outcome in ("done", "begun") and _is_lost(env, state, entry)]
    except (LedgerDamaged, InvalidLocation):  # what is wrong in the one was wrong before, and of the other the first commit has told
        return
    if found:
        listed = "; ".join(dict.fromkeys(f"{entry.what} of {entry.collection or f'generation {entry.generation}'}" for entry in found))
        yield f"done since this backup, says the audit log: {listed}. The tables may be further than this ledger: see `schemamig status`"
        yield "to have a ledger of the tables as they are, move this one away and run `schemamig ledger rebuild`"


def _is_lost(env: EnvironmentRoot, state: State, entry: HistoryEntry) -> bool:
    if entry.what == "unmanage":
        return _is_managed_again(env, state, entry)
    if entry.generation is None:
        return False
    deployment, hold = state.deployments.get(Generation(entry.generation)), state.holds.get(Generation(entry.generation))
    stage = None if deployment is None else deployment.state
    match entry.what:
        case "cutover":
            return stage not in (DeploymentState.COMMITTED, DeploymentState.ROLLED_BACK)
        case "rollback":
            begun = hold is not None and hold.state is HoldState.ROLLING_BACK
            # One that was killed is taken back by the upgrade that comes after it.
            is_over = any(other.created_at > entry.started_at for other in state.deployments.values())
            return stage is not DeploymentState.ROLLED_BACK and not (entry.outcome == "begun" and (begun or is_over))
        case "cancel":
            return stage not in (None, DeploymentState.CANCELLED, DeploymentState.ROLLED_BACK)
        case "adopt":
            return stage is None
        case "contract":
            return any(held.state is HoldState.OPEN and held.generation in ended_in(entry.detail) for held in state.holds.values())
        case _:
            return False


def _is_managed_again(env: EnvironmentRoot, state: State, unmanaged: HistoryEntry) -> bool:
    """Return whether a collection's rows are in the table that was given back, and no adoption has taken it again since."""
    for item in state.objects.values():
        shard = state.shards.get(item.shard)
        if shard is not None and is_at(env, unmanaged, shard.uri):
            taken = state.deployments.get(shard.generation)
            return taken is None or taken.created_at < unmanaged.started_at
    return False


def _tables(env: EnvironmentRoot) -> Iterator[str]:
    with contextlib.suppress(LedgerDamaged, InvalidLocation):  # what is wrong in it was wrong when it was made
        for shard in LedgerReader(env).state().shards.values():
            yield env.table_location(shard.uri).uri


def _of_something_else(folder: str, key: str) -> BackupUnusable:
    return BackupUnusable(folder=folder, reason=f"it holds a {key} of something else", is_made=True)


def _kept_as(key: str) -> str:
    """Return where a backup has a file of the ledger: ``ledger/...`` or ``plans/...``, in no environment's place."""
    return key.removeprefix(f"{EnvironmentRoot.SYSTEM_FOLDER}/")


def _taken(folder: str) -> BackupUnusable:
    return BackupUnusable(folder=folder, reason="there is a backup already", is_made=True)


def _put(store: Store, key: str, data: bytes, other: BackupUnusable) -> None:
    """Put ``data``, or find it there; ``other`` is raised if something else is."""
    try:
        store.put_if_absent(key, data)
    except ObjectExists as error:
        if store.get(key) != data:
            raise other from error


def _of_the_ledger(source: ReadStore, key: str) -> bytes:
    try:
        return source.get(key)
    except ObjectMissing as error:
        raise LedgerDamaged(where=key, reason="the file is not there") from error


def _keys(reader: LedgerReader, store: ReadStore, version: int) -> Iterator[str]:
    """Yield all that is written once. ``_last_checkpoint`` is not, and only a hint: without it the log is listed."""
    yield from (f"{FOLDER}/{name}" for name in reader.table.files())
    yield from (f"{PLANS}/{name}" for name in store.names(PLANS))
    yield from (f"{LOG}/{name}" for name in store.names(LOG) if name[:20].isdigit() and int(name[:20]) <= version)


def _restore_order(key: str) -> tuple[int, int]:
    """Return a sort key that puts the files of the log last, from the log's end backwards."""
    name = key.rpartition("/")[2]
    if not name[:20].isdigit():
        return (1, 0)
    return (0, -2 * int(name[:20]) + ("checkpoint" in name))


@dataclass(frozen=True, slots=True)
class _Manifest:
    """``uri``: of the environment it was made of; ``checksums``: key -> sha256."""

    version: int
    uri: str | None
    checksums: Mapping[str, str]

    @property
    def ledger(self) -> tuple[str, ...]:
        """Return the keys of the ledger's own files."""
        return tuple(key for key in self.checksums if key.startswith(f"{FOLDER}/"))

    @property
    def first_commit(self) -> str:
        """Return the key of the commit that a restore puts on top."""
        return f"{LOG}/{self.version + 1:020}.json"

    @property
    def log(self) -> tuple[str, ...]:
        """Return the keys of the log and of the first commit, in the order in which they are put."""
        return tuple(sorted({self.first_commit, *(key for key in self.checksums if key.startswith(f"{LOG}/"))}, key=_restore_order))


def _manifest(source: ReadStore, folder: str) -> _Manifest:
    try:
        document = json.loads(source.get(_MANIFEST))
        manifest = _Manifest(int(document["version"]), document.get("uri"), dict(document["files"]))
    except ObjectMissing as error:
        raise BackupUnusable(folder=folder, reason=f"it has no {_MANIFEST}, so it was never finished") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BackupUnusable(folder=folder, reason=f"its {_MANIFEST} is not one ({error})") from error
    for key in manifest.checksums:
        if not key.startswith((f"{FOLDER}/", f"{PLANS}/")) or ".." in key.split("/"):
            raise BackupUnusable(folder=folder, reason=f"its {_MANIFEST} names {key!r}, which is no part of a ledger")
    return manifest


def _checked(source: ReadStore, folder: str, key: str, checksum: str) -> bytes:
    try:
        data = source.get(_kept_as(key))
    except ObjectMissing as error:
        raise BackupUnusable(folder=folder, reason=f"{_kept_as(key)} is missing") from error
    if hashlib.sha256(data).hexdigest() != checksum:
        raise BackupUnusable(folder=folder, reason=f"{_kept_as(key)} was altered")
    return data
