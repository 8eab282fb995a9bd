"""Digests of rows add up, in any order, and survive JSON."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_schemamig.core.spark.rows_digest import NO_ROWS, RowsDigest

DIGESTS = st.builds(RowsDigest, st.integers(-(10**12), 10**12), st.integers(-(2**63), 2**63 - 1), st.integers(-(10**30), 10**30))


@given(DIGESTS, DIGESTS, DIGESTS)
def test_digests_are_a_group(one: RowsDigest, two: RowsDigest, three: RowsDigest) -> None:
    assert one + two == two + one
    assert (one + two) + three == one + (two + three)
    assert one + NO_ROWS == one
    assert one - one == NO_ROWS
    assert (one + two) - two == one


@given(DIGESTS)
def test_json_keeps_every_digit(digest: RowsDigest) -> None:
    document = json.dumps(digest.to_json())
    assert RowsDigest.from_json(json.loads(document)) == digest
    assert isinstance(json.loads(document)["sum"], str)
