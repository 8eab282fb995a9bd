"""Looks at an environment after a path was taken: is it what its release declares, and does everybody find their rows."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from airflow_provider_schemamig.core.access.arrow.read import arrow_schema
from airflow_provider_schemamig.core.access.errors import NeedsSpark, NotInRelease, ReaderFenced
from airflow_provider_schemamig.core.access.reader import Reader
from airflow_provider_schemamig.core.access.resolved_table import Resolution, look
from airflow_provider_schemamig.core.access.statement import check_appendable
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, SchemaId, ShardId, Version
from airflow_provider_schemamig.core.release.columns import match
from airflow_provider_schemamig.core.schema.delta_rules.table_features import PLAIN_APPEND
from airflow_provider_schemamig.core.schema.describe import describe
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.core.testing.results import PathFinding
from airflow_provider_schemamig.core.testing.rows.expected import UNKNOWN, Expected, Rows, Texts, show_row
from airflow_provider_schemamig.core.testing.rows.row_codec import Row, row_of, row_text
from airflow_provider_schemamig.core.testing.rows.table_rows import append_rows, scan
from airflow_provider_schemamig.core.upgrade.plan.live_tables import drift_of, read_heads

Declarations = Mapping[CollectionName, Declaration]
_SHOWN = 2
_MEND = "Correct the steps or schema.sql of the versions on the way."
_BUG = "Report this with the release folder: it is a bug of schemamig."


class _Still(LedgerReader):
    """The ledger at one state: nobody else writes to the environment while it is looked at."""

    def __init__(self, env: Environment, state: State) -> None:
        super().__init__(env)
        self._still = state

    def state(self, at: int | None = None) -> State:
        return self._still if at is None else super().state(at)


class RowsReader(Reader):
    """A reader handle with all its checks, that reads the files itself: the rows of tables that delta-rs would not read rightly, too."""

    def __init__(self, env: Environment, collection: str, release: Version, ledger: LedgerReader) -> None:
        super().__init__(env, collection, release, None)
        self._ledger = ledger

    def texts(self) -> Texts:
        """Return the rows as canonical texts, sorted. Raises ReaderFenced, NotInRelease."""
        pinned = self.pin()
        fit, place = pinned.fit, pinned.place
        assert fit is not None  # nothing is in preparation
        origins = match(fit.source, fit.shown, fit.renames)
        rows = (show_row(row, fit.source.fields, fit.target.fields, origins) for row in scan(place.store, place.head))
        return tuple(sorted(row_text(row, fit.target.fields) for row in rows))


@dataclass(frozen=True, slots=True)
class RowsMark:
    """The place of a collection's rows, and the schema to read them by. Equal marks: not a commit in between, so the very same rows."""

    shard: ShardId
    table_version: int
    schema_id: SchemaId


Marks = Mapping[CollectionName, RowsMark]
NO_MARKS: Marks = {}


class EnvironmentView:
    """An environment at one moment: the ledger and all heads, read once for all looks."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.state = LedgerReader(env).state()
        self.still = _Still(env, self.state)
        self.heads = read_heads(env, self.state)

    @functools.cached_property
    def marks(self) -> dict[CollectionName, RowsMark]:
        found = {}
        for name, item in self.state.objects.items():
            head = self.heads.get(name)
            if head is not None:
                found[name] = RowsMark(item.shard, head.version, item.schema_id)
        return found

    def texts(self, name: CollectionName, release: Version) -> Texts:
        return RowsReader(self.env, name, release, self.still).texts()


@dataclass
class ViewFindings:
    """``found``: the rows of each collection; ``fenced``: why an old reader gets none of one."""

    findings: list[PathFinding] = field(default_factory=list)
    found: dict[CollectionName, Texts] = field(default_factory=dict)
    fenced: dict[CollectionName, str] = field(default_factory=dict)


def check_release(
    view: EnvironmentView,
    version: Version,
    declared: Declarations,
    expected: Expected,
    phase: str,
    *,
    marks: Marks = NO_MARKS,
    exact: bool = True,
) -> ViewFindings:
    """Hold the environment against ``version``: what the ledger declares, the live tables, every row.

    ``marks``: of an environment in which the expected rows were found; what is marked as it was then is not read again. ``exact`` False,
    after a rollback: comments and order may be the later release's, and what was widened may fence.
    """
    seen = ViewFindings()
    problems = (*_schema_problems(view.state, version, declared, exact=exact), *_drift(view))
    seen.findings += [PathFinding(phase, *problem) for problem in problems]
    if seen.findings:
        return seen  # rows are read by what is declared
    for name in declared:
        wanted = expected[name]
        if wanted is not UNKNOWN and marks.get(name) == view.marks[name]:
            seen.found[name] = wanted
            continue
        try:
            texts = seen.found[name] = view.texts(name, version)
        except ReaderFenced as fence:
            if exact:
                raise
            seen.fenced[name] = f"{fence.what} {fence.reason}"  # a widened type stays: to some readers that is the end
            continue
        if wanted is not UNKNOWN and texts != wanted:
            reason = f"a reader of {version} finds other rows than it has to: {_difference(wanted, texts)}."
            seen.findings.append(PathFinding(phase, "rows_differ", reason, _MEND, name))
    return seen


def check_previous_release(
    view: EnvironmentView, version: Version, before: Rows, unsure: frozenset[CollectionName], phase: str, marks: Marks
) -> ViewFindings:
    """Return what readers of ``version`` find after the environment left it: the rows ``before``, or a fence.

    ``unsure``: collections that queries or replacements made anew. ``marks``: as for ``check_release``.
    """
    seen = ViewFindings()
    for name, wanted in before.items():
        if name in marks and marks[name] == view.marks.get(name):
            continue
        try:
            texts = seen.found[name] = view.texts(name, version)
        except ReaderFenced as fence:
            seen.fenced[name] = f"{fence.what} {fence.reason}"
        except NotInRelease:
            seen.fenced[name] = "the collection is gone"
        else:
            if name not in unsure and texts != wanted:
                reason = f"a reader built for {version} gets wrong rows: {_difference(wanted, texts)}."
                seen.findings.append(PathFinding(phase, "old_reader_differs", reason, _MEND, name))
    return seen


def soundness(view: EnvironmentView, phase: str) -> list[PathFinding]:
    """Return findings at the end of a path, unless no intent is open and the ledger is without a fault."""
    intents = list(view.state.intents)
    found = [("intent_left", f"an intent ({kind.value}) on {shard} was left open.") for shard, kind, _ in intents]
    found += [("ledger_unsound", f"{fault.where}: {fault.text}") for fault in verify(view.still)]
    return [PathFinding(phase, cause, reason, _BUG) for cause, reason in found]


def read_through_delta_rs(env: Environment, version: Version, name: CollectionName, texts: Texts, phase: str) -> list[PathFinding]:
    """Return a finding if users get other rows by ``.arrow()`` than ``texts``. Where that needs Spark, nothing is compared."""
    state = LedgerReader(env).state()
    fields = state.entry(name).declared.fields
    try:
        table = env.reader(name, release=version).arrow()
    except NeedsSpark:
        return []
    found = tuple(sorted(row_text(row, fields) for row in table.to_pylist()))
    if found == texts:
        return []
    reason = f"delta-rs reads other rows than the files have: {_difference(texts, found)}."
    return [PathFinding(phase, "arrow_differs", reason, _BUG, name)]


def same_as_new(env: Environment, fresh: Environment, phase: str) -> list[PathFinding]:
    """Return whether an upgraded and contracted environment is, table by table, what a new one of its release is."""
    ours, theirs = LedgerReader(env).state(), LedgerReader(fresh).state()
    findings = []
    if ours.release is None or not ours.release.is_same(theirs.release):
        findings.append(PathFinding(phase, "release_differs", "upgraded and new environments bear different releases.", _MEND))
    upgraded, new = read_heads(env, ours), read_heads(fresh, theirs)
    for name in sorted({*upgraded, *new}):
        one, other = upgraded.get(name), new.get(name)
        if one is None or other is None:
            where = "a new one" if one is None else "an upgraded one"
            findings.append(PathFinding(phase, "collection_differs", f"only {where} has the collection.", _MEND, name))
            continue
        differences = [c for c in diff(one.declaration(name), other.declaration(name)).changes if c.cost.rank > 0]
        differences += [c for c in diff(ours.entry(name).declared, theirs.entry(name).declared).changes if c.cost.rank > 0]
        if differences or fingerprint(ours.entry(name).declared) != fingerprint(theirs.entry(name).declared):
            texts = "; ".join(dict.fromkeys(map(describe, differences))) or "their fingerprints differ"
            findings.append(PathFinding(phase, "schema_differs", f"an upgraded table lacks what a new one has: {texts}.", _MEND, name))
    return findings


def write_rows(env: Environment, version: Version, name: CollectionName, declaration: Declaration, texts: Texts) -> str | None:
    """Add rows: through a writer handle where delta-rs keeps the table's rules, else by the log. What kept them out, if anything did."""
    import pyarrow as pa

    rows = [row_of(text, declaration.fields) for text in texts]
    if not rows:
        return None
    place = _looked(env, version, name).table()
    try:
        check_appendable(place, name)
    except NeedsSpark:
        strange = sorted(place.head.features - PLAIN_APPEND)
        if strange:
            return f"{name}: no rows, the table has the features {', '.join(strange)}"
        store = env.table_store(place.shard.uri, place.shard.table_id)
        append_rows(store, place.head, [_with_nulls(row, place.live.declaration) for row in rows])
        return None
    env.writer(name, release=version).append(pa.Table.from_pylist(rows, schema=arrow_schema(declaration.fields)))
    return None


def _looked(env: Environment, version: Version, name: CollectionName) -> Resolution:
    return look(env, LedgerReader(env), name, version)


def _with_nulls(row: Row, live: Declaration) -> Row:
    """Fill a row with NULL for the table's other columns: those that wait for contract."""
    return {f.name: row.get(f.name) for f in live.fields}


Problem = tuple[str, str, str, str | None]


def _schema_problems(state: State, version: Version, declared: Declarations, *, exact: bool) -> Iterator[Problem]:
    if state.release is None or state.release.version != version:
        at = "nowhere" if state.release is None else f"at {state.release.version}"
        yield "wrong_version", f"the environment is {at}, not at {version}.", _MEND, None
        return
    for name in sorted({*declared, *state.objects}):
        if name not in state.objects or name not in declared:
            text = "is missing" if name in declared else "is still there"
            yield "collection_differs", f"the collection {text} at {version}.", _MEND, name
        elif state.objects[name].fingerprint != fingerprint(declared[name]) or (exact and state.entry(name).declared != declared[name]):
            yield "declared_differs", f"the ledger does not declare what the snapshot of {version} declares.", _MEND, name


def _drift(view: EnvironmentView) -> Iterator[Problem]:
    for name in view.state.objects:
        head = view.heads.get(name)
        differences = ("its table is missing",) if head is None else drift_of(view.state, name, head)
        if differences:
            yield "drift", f"the live table is not what the ledger says: {'; '.join(differences)}.", _BUG, name


def _difference(wanted: Texts, found: Texts) -> str:
    """Return how many rows, and the first that are on one side only."""
    missing, extra = _minus(wanted, found), _minus(found, wanted)
    parts = [f"{len(found)} row(s) where {len(wanted)} are due" if len(found) != len(wanted) else f"{len(missing)} of {len(wanted)} differ"]
    parts += [f"missing {text}" for text in missing[:_SHOWN]]
    parts += [f"instead {text}" for text in extra[:_SHOWN]]
    return "; ".join(parts)


def _minus(one: Texts, other: Texts) -> list[str]:
    left = list(other)
    found = []
    for text in one:
        if text in left:
            left.remove(text)
        else:
            found.append(text)
    return found
