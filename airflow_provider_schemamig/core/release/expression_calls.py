"""Which functions an expression calls, by their names: parsers make one function of many, and do not know others."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import pairwise

from airflow_provider_schemamig.core.release.functions import NON_DETERMINISTIC, NON_DETERMINISTIC_IF_EMPTY, WITHOUT_PARENTHESES
from airflow_provider_schemamig.core.schema.tokens import Kind, Token, tokens

#: Words before a parenthesis that call nothing.
_WORDS = "and as between case distinct div else end escape from in interval is not or then when"
_NO_CALLS = frozenset(_WORDS.split())
_AFTER_LIKE = frozenset(["all", "any", "some"])
_TYPES = frozenset(["decimal", "dec", "numeric", "varchar", "char", "array", "map", "struct"])


@functools.lru_cache(maxsize=4096)
def functions_called(expression: str) -> tuple[str, ...]:
    """The names of the functions an expression calls, in lower case and in its order; those without parentheses, too.

    ``expression`` is a canonical one (``schema.expressions``), or raises BrokenText.
    """
    return tuple(name for name, _ in _calls(tokens(expression)))


def not_constant(expression: str) -> tuple[str, ...]:
    """The functions in an expression that give another value another time, session or file."""
    found = _calls(tokens(expression))
    return tuple(name for name, is_empty in found if name in NON_DETERMINISTIC or (is_empty and name in NON_DETERMINISTIC_IF_EMPTY))


def _calls(found: tuple[Token, ...]) -> Iterator[tuple[str, bool]]:
    end = Token(Kind.SYMBOL, "", 0, 0)
    before = ""
    for number, (token, following) in enumerate(pairwise([*found, end])):
        name = token.text.lower()
        if token.kind in (Kind.WORD, Kind.QUOTED) and following.text == "(" and following.kind is Kind.SYMBOL:
            is_type = before == "as" and name in _TYPES
            if not is_type and name not in _NO_CALLS and not (before in ("like", "ilike") and name in _AFTER_LIKE):
                yield name, number + 2 < len(found) and found[number + 2].text == ")"
        elif token.kind is Kind.WORD and name in WITHOUT_PARENTHESES and before != ".":
            yield name, True
        before = name
