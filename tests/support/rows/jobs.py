"""Spark's jobs on rows without a JVM, by the contract of ``spark_jobs``: queries are Python functions, known by their text.

A driver may be killed before or after its commit, and it may live on: then what it was about to commit is kept among the ``zombies``, and
lands (or is turned away, as Delta would) when a test says so.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_schemamig.core.delta.actions import REARRANGING
from airflow_provider_schemamig.core.release.queries.query import bind, placeholders
from airflow_provider_schemamig.core.spark.errors import DuplicateKeys, FillSuperseded, TargetDiverged
from airflow_provider_schemamig.core.spark.rows_digest import NO_ROWS, RowsDigest
from airflow_provider_schemamig.core.spark.runners import Job, JobRunner
from tests.support.lake import Crash
from tests.support.rows.tables import Row, Snapshot, Statement, clustered_by, commit_at, folder_of, newest, optimize, snapshot

#: Rows that a query makes of one row.
Query = Callable[[Row], Iterable[Row]]
#: ``hook(moment, what, key)`` as ``Environment.on_write``; what: "spark", key: the transaction's app id.
Hook = Callable[[str, str, str], None]

_EVERYTHING = re.compile(r"SELECT \* FROM (\w+)")
#: A query that only takes, renames and casts columns, of a view in backticks or of another such query in brackets.
_PLAIN = re.compile(r"SELECT ((?:(?! FROM ).)*) FROM (`\w+`|\(SELECT .*\))")
_TAKEN = re.compile(r"(?:CAST\()?(?:`(\w+)`|NULL)(?: AS [A-Z]+\))?(?: AS `(\w+)`)?")
_COUNTED = re.compile(r"SELECT 1 AS one FROM (\w+)")
_ATTEMPT = "attempt"


@dataclass
class RowJobs(JobRunner):
    """``queries``: text with {placeholders} -> function. ``on_commit`` is called just before and just after each commit."""

    queries: Mapping[str, Query]
    on_commit: Hook | None = None
    #: Of this many commits from now on the last one is not made: the process dies, its driver lives on. None: all are made.
    leave_at: int | None = None
    zombies: list[Callable[[], object]] = field(default_factory=list)
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    #: Called with job and request before the job reads anything.
    before: Callable[[str, Mapping[str, Any]], None] | None = None
    #: Called when it has its result.
    after: Callable[[str, Mapping[str, Any]], None] | None = None
    #: What ``fill`` and ``apply`` make of a row of the target instead of writing it.
    falsify: Query | None = None
    #: What the query at work looks up, by its view.
    lookups: dict[str, list[Row]] = field(default_factory=dict)
    #: Delta runs an OPTIMIZE after each statement, under its settings.
    compacts: bool = False

    def __call__(self) -> RowJobs:
        return self

    def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append((job, request))
        if self.before is not None:
            self.before(job, request)
        runs: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "fill": self._fill,
            "apply": self._apply,
            "digest": self._digest,
            "preflight": self._preflight,
            "cluster": self._cluster,
        }
        result = runs[job](request)
        if self.after is not None:
            self.after(job, request)
        return result

    def cancel(self) -> None:
        """It runs nothing that could be stopped."""

    def jobs(self, *kinds: str) -> list[Mapping[str, Any]]:
        return [request for job, request in self.asked if job in kinds]

    # --- fill ------------------------------------------------------------------------------------------------------------------------

    def _fill(self, request: Mapping[str, Any]) -> dict[str, Any]:
        base = snapshot(folder_of(request["shard_uri"]))
        rows = _shaped(self._query(request["query"], self._view(request["query"], request["inputs"])), request["columns"])
        inputs = {source.get("shard", view): source["version"] for view, source in request["inputs"].items()}
        replaced: dict[str, list[Row]] | None = {file: [] for file in base.files} if request["mode"] == "overwrite" else None
        statement = Statement(base, _whole(base, self._falsified(rows)), replaced)
        version, notes, skipped = self._write_once(base, statement, request, {"inputs": inputs})
        (info,) = (action["commitInfo"] for action in commit_at(base.path, version) if "commitInfo" in action)
        count = int(info["operationMetrics"]["numOutputRows"])
        return {"rows": count, "table_version": version, "inputs": notes["inputs"], "seconds": 0.0, "skipped": skipped}

    # --- apply -----------------------------------------------------------------------------------------------------------------------

    def _apply(self, request: Mapping[str, Any]) -> dict[str, Any]:
        base = snapshot(folder_of(request["target_uri"]))
        columns = request["columns"]
        self._look_up(request["inputs"])
        net: Counter[tuple[Any, ...]] = Counter()
        for sign, rows in self._changed(request["changes"]):
            shown = _shown(rows, request["projection"])
            for row in _shaped(self._query(request["query"], shown), columns):
                net[_key(row, columns)] += sign
        net = Counter({row: count for row, count in net.items() if count})
        inserted, deleted = sum(n for n in net.values() if n > 0), -sum(n for n in net.values() if n < 0)
        outcome = {"inserted": inserted, "deleted": deleted, "delta": _digest_of(net).to_json()}
        if not net:
            return {"table_version": None, **outcome, "skipped": False, "seconds": 0.0}
        if request.get("filled"):
            statement: Statement | None = _filled(base, net, request)
        else:
            if request["match"] and not _is_in_log(base, request):
                self._check_keys(base, net, request)
                self._check_gone(base, net, request)
            statement = _by_key(base, net, request) if request["match"] else _by_row(base, net, columns)
        if statement is None:
            if _is_in_log(base, request):
                statement = Statement(base)
            else:
                raise TargetDiverged(uri=request["target_uri"], version=base.version, rows=1)
        statement = Statement(base, _whole(base, self._falsified(statement.inserted)), statement.rewritten)
        version, notes, skipped = self._write_once(base, statement, request, {"applied": outcome})
        return {"table_version": version, **notes["applied"], "skipped": skipped, "seconds": 0.0}

    def _changed(self, changes: Mapping[str, Any]) -> Iterable[tuple[int, Sequence[Row]]]:
        if changes["kind"] == "files":
            for name, sign in (("added", 1), ("removed", -1)):
                if changes[name] is not None:
                    yield sign, snapshot(folder_of(changes[name]), 0).rows
            return
        path = folder_of(changes["uri"])
        before, after = snapshot(path, changes["from"] - 1), snapshot(path, changes["to"])
        yield 1, [row for file in after.files if file not in before.files for row in after.rows_of(file)]
        yield -1, [row for file in before.files if file not in after.files for row in before.rows_of(file)]

    def _check_keys(self, base: Snapshot, net: Counter[tuple[Any, ...]], request: Mapping[str, Any]) -> None:
        """Raises DuplicateKeys for a key of two new rows, or of one that only came while the target has the source's other one."""
        columns, match = request["columns"], request["match"]
        keys = {sign: Counter(_key(row, match) for row in _rows(changed, columns)) for sign, changed in ((1, net), (-1, _negative(net)))}
        there = {_key(row, match) for row in base.rows}
        doubtful = {key for key in keys[1] if key not in keys[-1] and key in there}
        if doubtful:
            rows, least = self._keys_of_source(request), 2 if request.get("must_match") else 0
            keys[1] |= Counter({key: max(rows[key], least) for key in doubtful})
        ambiguous = sum(count for count in keys[1].values() if count > 1)
        if ambiguous:
            raise DuplicateKeys(columns=tuple(match), rows=ambiguous)

    def _check_gone(self, base: Snapshot, net: Counter[tuple[Any, ...]], request: Mapping[str, Any]) -> None:
        """Raises TargetDiverged, with ``must_match``, for a key that went and that the target lacks, or that was another row's, too."""
        if not request.get("must_match"):
            return
        columns, match = request["columns"], request["match"]
        came, went = (Counter(_key(row, match) for row in _rows(changed, columns)) for changed in (net, _negative(net)))
        missing = went.keys() - {_key(row, match) for row in base.rows}
        if not missing and (forward := request["forward"]):
            found = [row for row in snapshot(base.path, forward["made_at"]).rows if _key(row, match) in went]
            keys, had = self._keys_of_source(request), Counter(_key(row, match) for row in found)
            missing = {key for key, count in went.items() if count > 1 or keys[key] > came[key] or had[key] > 1}
            missing |= {_key(row, match) for row in found if self._keys_back(row, request) != [_key(row, match)]}
        if missing:
            raise TargetDiverged(uri=request["target_uri"], version=base.version, rows=len(missing))

    def _keys_back(self, row: Row, request: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
        """Return the keys of the rows that come back of one of the target's."""
        self._look_up((forward := request["forward"])["inputs"])
        made = _shown(self._query(forward["query"], _shown([row], forward["projection"])), request["projection"])
        self._look_up(request["inputs"])
        return [_key(back, request["match"]) for back in self._query(request["query"], made)]

    def _keys_of_source(self, request: Mapping[str, Any]) -> Counter[tuple[Any, ...]]:
        shown = _shown(snapshot(folder_of(request["source"]["uri"]), request["source"]["version"]).rows, request["projection"])
        return Counter(_key(row, request["match"]) for row in _shaped(self._query(request["query"], shown), request["columns"]))

    def _falsified(self, rows: Sequence[Row]) -> Sequence[Row]:
        return rows if self.falsify is None else [made for row in rows for made in self.falsify(row)]

    # --- one statement, exactly once -------------------------------------------------------------------------------------------------

    def _write_once(
        self, base: Snapshot, statement: Statement, request: Mapping[str, Any], notes: Mapping[str, Any]
    ) -> tuple[int, Mapping[str, Any], bool]:
        """(version, notes, skipped)"""
        attempt = uuid.uuid4().hex
        if not _is_in_log(base, request):
            metadata = json.dumps({**json.loads(request["user_metadata"]), **notes, _ATTEMPT: attempt})
            txn = (request["txn_app_id"], request["txn_version"])
            self._commit(Statement(base, statement.inserted, statement.rewritten, txn, metadata))
        found = _find(base, request)
        if found is None:
            raise FillSuperseded(shard_uri=str(base.path), txn_version=request["txn_version"], collection=request.get("collection"))
        version, noted = found
        return version, noted, noted.pop(_ATTEMPT) != attempt

    def _commit(self, statement: Statement) -> None:
        assert statement.txn is not None
        if self.on_commit is not None:
            self.on_commit("before", "spark", statement.txn[0])
        if self.leave_at is not None:
            self.leave_at -= 1
            if not self.leave_at:
                self.leave_at = None
                self.zombies.append(statement.commit)
                raise Crash("the process died, its driver goes on")
        statement.commit()
        if self.compacts:
            optimize(statement.base.path, statement.user_metadata)
        if self.on_commit is not None:
            self.on_commit("after", "spark", statement.txn[0])

    # --- cluster ---------------------------------------------------------------------------------------------------------------------

    def _cluster(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """In order of the clustering columns, which is not Hilbert's curve, but as good in files of a few rows."""
        path = folder_of(request["table_uri"])
        columns = clustered_by(path)
        optimize(path, key=lambda row: [(row[column] is None, row[column]) for column in columns], clusteringProvider="liquid")
        return {"rows": len(snapshot(path).rows), "seconds": 0.0}

    # --- digest, preflight -----------------------------------------------------------------------------------------------------------

    def _digest(self, request: Mapping[str, Any]) -> dict[str, Any]:
        found = {}
        for part in request["parts"]:
            rows = _shaped(self._query(part["query"], self._view(part["query"], part["inputs"])), part["columns"])
            found[part["name"]] = _digest_of(Counter(_key(row, part["columns"]) for row in rows)).to_json()
        return {"digests": found}

    def _preflight(self, request: Mapping[str, Any]) -> dict[str, Any]:
        sizes = []
        for wanted in request["estimates"]:
            now = snapshot(folder_of(wanted["uri"]))
            sizes.append({"rows": len(now.rows), "bytes": 1, "files": len(now.files)})
        violations = []
        for check in request["checks"]:
            if check["kind"] == "duplicate_key":
                keys = Counter(_key(row, check["columns"]) for row in snapshot(folder_of(check["uri"])).rows)
                count = sum(n for n in keys.values() if n > 1)
                if count:
                    found = {"collection": check["collection"], "rule": "key", "count": count, "sample": []}
                    violations.append(found)
        return {"unusable": [], "violations": violations, "estimates": sizes}

    # --- queries ---------------------------------------------------------------------------------------------------------------------

    def _view(self, query: str, inputs: Mapping[str, Mapping[str, Any]]) -> list[Row]:
        """The rows of the view that a row-local query is over: the first that it reads, the others are looked up."""
        found = {view: place.start() for view in inputs if (place := re.search(rf"FROM.*\b{view}\b", query)) is not None}
        first = min(found, key=lambda view: query.index(view, found[view]))
        self._look_up({view: source for view, source in inputs.items() if view != first})
        return _read(inputs[first])

    def _look_up(self, inputs: Mapping[str, Mapping[str, Any]]) -> None:
        self.lookups = {view: _read(source) for view, source in inputs.items()}

    def _query(self, text: str, rows: Sequence[Row]) -> list[Row]:
        if _EVERYTHING.fullmatch(text.strip()):
            return list(rows)
        if _PLAIN.fullmatch(text):
            return plain(text, rows)
        if _COUNTED.fullmatch(text.strip()):
            return [{"one": 1} for _ in rows]
        bound = {bind(query, {name: f"schemamig_{name}" for name in placeholders(query)}): made for query, made in self.queries.items()}
        made = bound.get(text)
        assert made is not None, f"no function for {text!r} among {sorted(bound)}"
        return [result for row in rows for result in made(row)]


def _read(source: Mapping[str, Any]) -> list[Row]:
    """The rows of one input of a request."""
    path = folder_of(source["uri"])
    return _shown(snapshot(path, newest(path) if source.get("version") is None else source["version"]).rows, source["projection"])


def plain(text: str, rows: Sequence[Row]) -> list[Row]:
    """What a plain query makes of the rows of its view."""
    found = _PLAIN.fullmatch(text)
    assert found is not None, text
    inner = rows if found[2].startswith("`") else plain(found[2][1:-1], rows)
    taken = [_TAKEN.fullmatch(item) for item in found[1].split(", ")]
    assert all(taken), text
    return [{item[2] or item[1]: None if item[1] is None else row[item[1]] for item in taken if item} for row in inner]


def _whole(base: Snapshot, rows: Iterable[Row]) -> list[Row]:
    """With NULL for the columns that a statement does not name."""
    return [{field["name"]: None for field in base.fields} | row for row in rows]


def _shown(rows: Sequence[Row], projection: str) -> list[Row]:
    items = [(item, _TAKEN.fullmatch(item)) for item in projection.split(", ")]
    names = {(found[2] or found[1]) if found else item.strip("` "): found[1] if found else item.strip("` ") for item, found in items}
    return [{name: None if source is None else row[source] for name, source in names.items()} for row in rows]


def _shaped(rows: Iterable[Row], columns: Sequence[str]) -> list[Row]:
    return [{column: row[column] for column in columns} for row in rows]


def _key(row: Row, columns: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[column] for column in columns)


def _digest_of(rows: Counter[tuple[Any, ...]]) -> RowsDigest:
    """Of rows with how often each came, negative: went."""
    total = NO_ROWS
    for row, count in rows.items():
        hashed = int.from_bytes(hashlib.blake2b(repr(row).encode(), digest_size=8).digest(), "big", signed=True)
        total += RowsDigest(count, hashed if count % 2 else 0, hashed * count)
    return total


def _by_row(base: Snapshot, net: Counter[tuple[Any, ...]], columns: Sequence[str]) -> Statement | None:
    """None if a row that goes is not there."""
    going = Counter({row: -count for row, count in net.items() if count < 0})
    rewritten: dict[str, list[Row]] = {}
    for file in base.files:
        before, kept = base.rows_of(file), []
        for row in before:
            if going[_key(row, columns)] > 0:
                going[_key(row, columns)] -= 1
            else:
                kept.append(row)
        if len(kept) < len(before):
            rewritten[file] = kept
    if +going:
        return None
    return Statement(base, _rows(net, columns), rewritten)


def _by_key(base: Snapshot, net: Counter[tuple[Any, ...]], request: Mapping[str, Any]) -> Statement:
    columns, match = request["columns"], request["match"]
    inserted = _rows(net, columns)
    touched = {_key(dict(zip(columns, row, strict=True)), match) for row in net}
    rewritten: dict[str, list[Row]] = {}
    before: dict[tuple[Any, ...], Row] = {}
    for file in base.files:
        rows = base.rows_of(file)
        kept = [row for row in rows if _key(row, match) not in touched]
        before |= {_key(row, match): row for row in rows if _key(row, match) in touched}
        if len(kept) < len(rows):
            rewritten[file] = kept
    made = [_unless_null(before.get(_key(row, match), {}), row, request) for row in inserted]
    return Statement(base, made, rewritten)


def _unless_null(before: Row, row: Row, request: Mapping[str, Any]) -> Row:
    """A row as it is written: in columns that ``inserts`` names a NULL is what was there, or the number that it says."""
    numbers = {name: int(re.findall(r"\d+", sql)[0]) for name, sql in request.get("inserts", {}).items()}
    return before | row | {name: before.get(name, number) for name, number in numbers.items() if row[name] is None}


def _filled(base: Snapshot, net: Counter[tuple[Any, ...]], request: Mapping[str, Any]) -> Statement:
    column, columns = request["filled"], request["columns"]
    others = [name for name in request["match"] or columns if name != column]
    came = {_key(row, others): row[column] for row in _rows(net, columns)}
    went = {(_key(row, others), row[column]) for row in _rows(_negative(net), columns)}
    inserted: list[Row] = []
    rewritten: dict[str, list[Row]] = {}
    for file in base.files:
        rows = base.rows_of(file)
        due = [row for row in rows if _key(row, others) in came and (_key(row, others), row[column]) in went]
        if due:
            rewritten[file] = [row for row in rows if row not in due]
            inserted += [row | {column: came[_key(row, others)]} for row in due]
    return Statement(base, inserted, rewritten)


def _rows(net: Counter[tuple[Any, ...]], columns: Sequence[str]) -> list[Row]:
    return [dict(zip(columns, row, strict=True)) for row, count in net.items() for _ in range(max(count, 0))]


def _negative(net: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter({row: -count for row, count in net.items()})


def _is_in_log(base: Snapshot, request: Mapping[str, Any]) -> bool:
    return base.txns.get(request["txn_app_id"], -1) >= int(request["txn_version"])


def _find(base: Snapshot, request: Mapping[str, Any]) -> tuple[int, dict[str, Any]] | None:
    """The newest commit of a statement with the request's user metadata: its version and its notes with the attempt."""
    wanted = json.loads(request["user_metadata"])
    for version in range(newest(base.path), -1, -1):
        for action in commit_at(base.path, version):
            info = action.get("commitInfo", {})
            noted = json.loads(info.get("userMetadata") or "{}") if info.get("operation") not in REARRANGING else {}
            if _ATTEMPT in noted and {name: noted.pop(name, None) for name in wanted} == wanted:
                return version, noted
    return None
