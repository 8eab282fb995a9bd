"""What on a table depends on a column: CHECKs, generated columns, partitioning, clustering.

Delta refuses to rename, drop or retype such a column, because it does not rewrite expressions. Renames in CHECKs we do follow: the
constraint is rewritten in the same commit. Everything else is refused as Delta does it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from airflow_provider_schemamig.core.delta.metadata.editor import MetadataDraft
from airflow_provider_schemamig.core.delta.names import fields_in
from airflow_provider_schemamig.core.delta.properties import CONSTRAINT
from airflow_provider_schemamig.core.schema.clauses import CLAUSES
from airflow_provider_schemamig.core.schema.expressions.sqlglot_tree import parse_one

_WORD = re.compile(r"\w+")


def check_users(draft: MetadataDraft, path: str, word: str | None = None) -> Iterator[str]:
    """Yield the names of the CHECKs that use the column at ``path``, a struct around it, or a field inside it. ``word``: and have this
    word in them."""
    for key, text in draft.configuration.items():
        if key.startswith(CONSTRAINT) and uses(text, path) and _has_word(text, word):
            yield key.removeprefix(CONSTRAINT)


def computed_users(draft: MetadataDraft, path: str, word: str | None = None) -> Iterator[str]:
    """Yield in words each other column that is computed from the column at ``path``. ``word``: by an expression with this word in it."""
    keys = [clause.key for clause in CLAUSES if clause.reads_columns]
    for name, field in fields_in(draft.schema):
        texts = [str(text) for text in map((field.get("metadata") or {}).get, keys) if text is not None]
        if name != path and any(uses(text, path) and _has_word(text, word) for text in texts):
            yield f"the generated column {name}"


def _has_word(expression: str, word: str | None) -> bool:
    return word is None or word.lower() in map(str.lower, _WORD.findall(expression))


def layout_user(draft: MetadataDraft, path: str) -> str | None:
    """Return ``PARTITIONED BY`` or ``CLUSTER BY`` if the rows are laid out by the column or by a field inside it; else None."""
    if path in draft.partition_columns:
        return "PARTITIONED BY"
    physical = draft.physical(path)
    if any(column[: len(physical)] == physical for column in draft.clustering):
        return "CLUSTER BY"
    return None


def uses(expression: str, path: str) -> bool:
    """Return whether an expression refers to the column at ``path``, to a struct around it or to a field inside it.

    True also if that is not clear.
    """
    wanted = path.lower().split(".")
    for found in _references(expression):
        length = min(len(found), len(wanted))
        if list(found[:length]) == wanted[:length]:
            return True
    return False


@functools.lru_cache(maxsize=4096)
def _references(expression: str) -> tuple[tuple[str, ...], ...]:
    """Return every column reference as lower-case parts. Text that sqlglot cannot parse: every word in it could be a column."""
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        parsed = parse_one(expression)
    except SqlglotError:
        return tuple((word.lower(),) for word in _WORD.findall(expression))
    found = []
    for column in parsed.find_all(exp.Column):
        parts = [part.name.lower() for part in column.parts]
        node: exp.Expression = column
        while isinstance(node.parent, exp.Dot) and node.arg_key == "this" and isinstance(node.parent.expression, exp.Identifier):
            node = node.parent
            parts.append(node.expression.name.lower())
        found.append(tuple(parts))
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def only_compares(expression: str) -> bool:
    """Return whether an expression does nothing with its columns but compare them: then a wider type changes no answer for old values."""
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    plain = (
        exp.Column,
        exp.Identifier,
        exp.Dot,
        exp.Literal,
        exp.Boolean,
        exp.Null,
        exp.Neg,
        exp.Paren,
        exp.Tuple,
        exp.And,
        exp.Or,
        exp.Not,
        exp.Is,
        exp.In,
        exp.Between,
        exp.EQ,
        exp.NEQ,
        exp.NullSafeEQ,
        exp.GT,
        exp.GTE,
        exp.LT,
        exp.LTE,
    )
    try:
        return all(isinstance(node, plain) for node in parse_one(expression).walk())
    except SqlglotError:
        return False
