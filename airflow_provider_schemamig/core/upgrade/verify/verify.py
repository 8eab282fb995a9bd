"""Check from outside whether every live table is consistent with its schema, in six conditions (``schemamig verify``).

A checker of its own: it has nothing of what makes online changes (``online``, ``online.backfill``, the operations) but the way a question
is put to Spark, and what those wrote down as validated or filled is what it is there to doubt. It reads the ledger's rows and the tables'
logs, and asks Spark about rows where a log does not tell. It writes nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from airflow_provider_schemamig.core.ledger.objects.known_heads import recall_heads
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.online.key_validation import PendingKeyCheck
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.plan.live_tables import asked_for
from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs
from airflow_provider_schemamig.core.upgrade.verify.findings import Condition, KeptRule, TableFinding, Unasked, Verified, gone, sorted_out
from airflow_provider_schemamig.core.upgrade.verify.keys import ask, dues_of, violations_of
from airflow_provider_schemamig.core.upgrade.verify.log import (
    left_over_columns,
    missing_clustering,
    unfilled_defaults,
    unfilled_swaps,
    unknown_columns,
    values_without_column,
)
from airflow_provider_schemamig.core.upgrade.verify.rows import RowQuestion, checks, not_nulls
from airflow_provider_schemamig.core.upgrade.verify.table import VerifiedTable, look

#: What is found while the ledger moves on may have been in order before and after: looked at again, so often.
_LOOKS = 3

_Found = TableFinding | KeptRule | Unasked


def verify_environment(env: EnvironmentRoot, jobs: Jobs, collections: Collection[CollectionName] | None = None) -> Verified:
    """Run ``verify`` on the ledger's newest state, also while somebody changes the tables. Raises as it does."""
    ledger = LedgerReader(env)
    for _ in range(_LOOKS):
        state = ledger.state()
        found = verify(env, state, jobs, collections)
        if not found.broken or ledger.state().version == state.version:
            break
    return found


def verify(env: EnvironmentRoot, state: State, jobs: Jobs, collections: Collection[CollectionName] | None = None) -> Verified:
    """Look at the live tables of ``collections`` (None: of all), each at its newest version, as ``state`` says that they should be.

    ``jobs`` is called only if the logs do not tell all. Raises UnknownCollection, the errors of reading a log and of ``core.spark.errors``.
    """
    names = asked_for(state, collections)
    found: list[_Found | RowQuestion] = []
    tables = {}
    recall_heads(env)
    for name, (table, by_the_log) in zip(names, env.each(functools.partial(_look, env, state), names), strict=True):
        if table is None:
            found.append(gone(name))
        else:
            tables[name] = table
            found += by_the_log
    dues, absent = dues_of(env, state, list(tables), {})
    found += [_of_key(tables[item.collection], item) for item in dues]
    found += [Unasked(name, key.element, f"{key.rule}: its columns or the table it refers to are not there") for name, key in absent]
    violations = ask(env, jobs, [item.check for item in found if isinstance(item, RowQuestion)])
    return sorted_out([_answer(item, violations) if isinstance(item, RowQuestion) else item for item in found])


def _look(env: EnvironmentRoot, state: State, collection: CollectionName) -> tuple[VerifiedTable | None, Sequence[_Found | RowQuestion]]:
    table = look(env, state, collection)
    return table, () if table is None else list(_by_the_log(table))


def _by_the_log(table: VerifiedTable) -> Iterator[_Found | RowQuestion]:
    yield from unknown_columns(table)
    yield from left_over_columns(table)
    yield from values_without_column(table)
    yield from unfilled_defaults(table)
    yield from unfilled_swaps(table)
    yield from not_nulls(table)
    yield from missing_clustering(table)
    yield from checks(table)


def _of_key(table: VerifiedTable, item: PendingKeyCheck) -> RowQuestion | KeptRule:
    if item.check is None or not table.has_rows:
        return KeptRule(table.collection, item.key.element, item.validated.version)
    return RowQuestion(table, item.key.element, item.key.breach, Condition.RULE_VIOLATED, item.check)


def _answer(question: RowQuestion, violations: Sequence[Mapping[str, Any]]) -> TableFinding | KeptRule:
    own = violations_of(violations, question.table.collection, str(question.check["rule"]))
    return question.answer(own[0] if own else None)
