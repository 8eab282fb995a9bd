"""A plan names the FOREIGN KEYs that no row is asked for: a table made anew is not looked at for them, nor are those that refer to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.upgrades import two_releases

Z, MORE = "CREATE TABLE z (id BIGINT NOT NULL PRIMARY KEY);", "CREATE TABLE z (id BIGINT NOT NULL PRIMARY KEY, more BIGINT);"
T, WITH_KEY = "CREATE TABLE t (ref BIGINT);", "CREATE TABLE t (ref BIGINT, FOREIGN KEY (ref) REFERENCES z);"
TEXTS = "CREATE TABLE z (id STRING NOT NULL PRIMARY KEY); CREATE TABLE t (ref STRING, FOREIGN KEY (ref) REFERENCES z);"
#: The tables before and after, the steps -> the table that is made anew, of each FOREIGN KEY that is named.
CASES = {
    "the own table is rewritten": (Z + T, Z + WITH_KEY, 'rewrite("t", up="SELECT ref FROM {t}")', ["t"]),
    "the own table is replaced and filled": (Z + T, Z + WITH_KEY, 'replacement("t", fill="SELECT ref FROM {t}")', ["t"]),
    "the own table is replaced and empty": (Z + T, Z + WITH_KEY, 'replacement("t")', []),
    "the other table is rewritten": (
        Z + WITH_KEY,
        MORE + WITH_KEY,
        'rewrite("z", up="SELECT id, id AS more FROM {z}")',
        ["z"],
    ),
    "the other table is replaced and empty": (Z + WITH_KEY, MORE + WITH_KEY, 'replacement("z")', ["z"]),
    "both are rewritten": (
        Z + WITH_KEY,
        TEXTS,
        'rewrite("z", up="SELECT CAST(id AS STRING) AS id FROM {z}"), rewrite("t", up="SELECT CAST(ref AS STRING) AS ref FROM {t}")',
        ["t"],
    ),
    "it is evolved, and asked": (Z + T, Z + WITH_KEY, 'evolution("t")', []),
    "it is removed": (Z + WITH_KEY, "CREATE TABLE z (id STRING);", 'replacement("z"), removal("t")', []),
}


@pytest.mark.parametrize("name", CASES)
def test_unasked_keys_are_named_in_the_plan(tmp_path: Path, name: str) -> None:
    before, after, steps, anew = CASES[name]
    lake = two_releases(tmp_path, before, after, steps)
    found = [note for note in commands.plan(lake.env, lake.second).to_json()["notes"] if "no row is asked" in note]
    rule = "FOREIGN KEY (ref) REFERENCES z"
    assert found == [
        f"t: no row is asked for {rule}, as the table of {made} is made anew; `schemamig verify` asks all after the commit."
        for made in anew
    ]
