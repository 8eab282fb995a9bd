"""Plans by digest: written once, verified whenever they are read."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged, PlanMissing
from airflow_provider_schemamig.core.ledger.objects.plan_store import digest, read_plan, write_plan
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from tests.support.examples import examples

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JSON)
def test_blobs_round_trip(env: EnvironmentRoot, document: object) -> None:
    name = write_plan(env, canonical(document))
    assert name == digest(canonical(document))
    assert read_plan(env, name) == document


def test_the_digest_is_of_the_canonical_text() -> None:
    text = '{"a":[1,"é"],"b":null}'
    assert digest(canonical({"b": None, "a": [1, "é"]})) == hashlib.sha256(text.encode()).hexdigest()


def test_writing_again_changes_nothing(env: EnvironmentRoot) -> None:
    assert write_plan(env, canonical({"a": 1})) == write_plan(env, canonical({"a": 1}))
    assert len(env.store().names("_schemamig/plans")) == 1


@pytest.mark.parametrize("name", ["0" * 64, "../ledger", "", "A" * 64])
def test_a_plan_that_is_not_there(env: EnvironmentRoot, name: str) -> None:
    with pytest.raises(PlanMissing):
        read_plan(env, name)


def test_an_altered_plan_is_refused_by_reader_and_writer(env: EnvironmentRoot) -> None:
    name = write_plan(env, canonical({"a": 1}))
    env.store().put(f"_schemamig/plans/{name}.json", b'{"a":2}')
    with pytest.raises(LedgerDamaged, match="another digest"):
        read_plan(env, name)
    with pytest.raises(LedgerDamaged):
        write_plan(env, canonical({"a": 1}))
