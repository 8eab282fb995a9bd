"""Statements are cut the same whether or not their text was seen before, in whatever order files are read."""

from __future__ import annotations

import time
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlglot.dialects.spark import Spark

from airflow_provider_schemamig.core.release.lint.run import review
from airflow_provider_schemamig.core.release.sql import parse
from airflow_provider_schemamig.core.release.sql import text as sql_text
from airflow_provider_schemamig.core.release.sql.text import Statement, statements
from airflow_provider_schemamig.core.schema.expressions import tokens
from airflow_provider_schemamig.core.schema.expressions.tokens import BrokenText
from bench.release import write_history
from tests.support.examples import examples

PIECES = (
    *(
        "CREATE TABLE a (x INT)",
        "CREATE TABLE a (x INT);",
        "CREATE TABLE a (\n  x INT\n);",
        "CREATE TABLE a (\n  y INT\n);",
        ";",
        "\n",
        " ",
    ),
    *("-- c;\n", "/* ; */", "/* /* */ ; */", "';'", '"', "'", "`;`", "--", "/*", "*/", "r'\\'", "x"),
)


def cut(text: str) -> tuple[Statement, ...] | str:
    try:
        return statements(text)
    except BrokenText as error:
        return f"{error.offset} {error.reason}"


@settings(max_examples=examples(100), deadline=None)
@given(texts=st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), min_size=2, max_size=4))
def test_statements_what_is_known_changes_nothing(texts: list[str]) -> None:
    fresh = []
    for text in texts:
        sql_text._KNOWN.clear()
        fresh.append(cut(text))
    sql_text._KNOWN.clear()
    for text in texts:
        cut(text)
    assert [cut(text) for text in texts] == fresh


def test_statements_it_is_bounded() -> None:
    sql_text._KNOWN.clear()
    statements("".join(f"CREATE TABLE t{n} (x INT);\n" for n in range(sql_text._MAX_KNOWN + 10)))
    assert len(sql_text._KNOWN) <= sql_text._MAX_KNOWN


def test_a_long_history_is_quick(tmp_path: Path) -> None:
    """A tenth of what `make bench` measures (1,000 versions of 50 collections in under 5 s), in CPU time, with room for slow machines."""
    write_history(tmp_path, 100)
    parse._read.cache_clear()
    sql_text._KNOWN.clear()
    started = time.process_time()
    assert review(tmp_path).refusals == ()
    assert time.process_time() - started < 2
    assert parse._read.cache_info().misses == 149  # 50 collections, and one changed statement for each later version


#: What sqlglot takes together, or apart, or treats as none of its neighbours; the keywords are its own.
LEXEMES = (
    *("(", ")", ",", ":", "<", ">", "=", ">>", "=>", "<=>", ".", "-", "*", ";", "{", "$", "@", "?", "\\", "|", "!", "&"),
    *(
        "a",
        "B_1",
        "_x",
        "12",
        "0",
        "1L",
        "1e5",
        "1.5",
        "\u00e9",
        "a.b",
        "`q`",
        "begin",
        "show",
        "primary key",
        "not  null",
        "decimal(10,2)",
    ),
    *("'s'", "''", "'it''s'", "'\u00fc\nx'", "r'x'", "x'ff'", "N'x'", "'a' 'b'", "'a'b", '"d"', "'open", "--c\n", "/*c*/"),
    *(" ", "\n", "\t", "\f", "struct<a: int, b: array<string>>"),
)


@settings(max_examples=examples(150), deadline=None)
@given(
    begin=st.sampled_from(("CREATE TABLE ", "create \n table x(", "CREATE TABLEs ", "SHOW ")),
    rest=st.lists(st.sampled_from((*LEXEMES, *Spark.Tokenizer.KEYWORDS)), max_size=9).map("".join),
)
@example("CREATE TABLE ", "t (a ARRAY<STRUCT<b: INT>> NOT NULL COMMENT 'c', d DECIMAL(10, 2)) TBLPROPERTIES ('e' = 'f')")
def test_a_plain_statement_has_the_tokens_that_sqlglot_finds(begin: str, rest: str) -> None:
    plain = tokens._plain_tokens(begin + rest)
    assert not plain or plain == tokens._all_tokens(begin + rest)
