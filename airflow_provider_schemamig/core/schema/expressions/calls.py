"""Which functions an expression calls, by their names: parsers make one function of many, and do not know others."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from airflow_provider_schemamig.core.schema.expressions.spark.row_functions import (
    NON_DETERMINISTIC,
    NON_DETERMINISTIC_IF_EMPTY,
    WITHOUT_PARENTHESES,
)
from airflow_provider_schemamig.core.schema.expressions.tokens import Token, TokenKind, tokens

#: Words before a parenthesis that call nothing.
_WORDS = "and as between case distinct div else end escape from in interval is not or then when"
_NO_CALLS = frozenset(_WORDS.split())
_AFTER_LIKE = frozenset(["all", "any", "some"])
_TYPES = frozenset(["decimal", "dec", "numeric", "varchar", "char", "array", "map", "struct"])


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a function, its name in lower case. ``start`` and ``end``: its place in the text, end exclusive."""

    name: str
    arguments: int
    start: int
    end: int


def functions_called(expression: str) -> tuple[str, ...]:
    """Return the names of the functions an expression calls, in lower case and in its order, also of those without parentheses.

    ``expression`` is a canonical one (``schema.expressions``), or raises BrokenText.
    """
    return tuple(call.name for call in calls(expression))


def not_constant(expression: str) -> tuple[str, ...]:
    """Return the functions in an expression that give another value another time, session or file."""
    found = calls(expression)
    return tuple(c.name for c in found if c.name in NON_DETERMINISTIC or (not c.arguments and c.name in NON_DETERMINISTIC_IF_EMPTY))


@functools.lru_cache(maxsize=4096)
def calls(expression: str) -> tuple[Call, ...]:
    """Return the calls in an expression, in its order. Raises BrokenText."""
    return tuple(_calls(tokens(expression)))


def _calls(found: tuple[Token, ...]) -> Iterator[Call]:
    end = Token(TokenKind.SYMBOL, "", 0, 0)
    before = ""
    for number, (token, following) in enumerate(pairwise([*found, end])):
        name = token.text.lower()
        if token.kind in (TokenKind.WORD, TokenKind.QUOTED) and following.text == "(" and following.kind is TokenKind.SYMBOL:
            is_type = before == "as" and name in _TYPES
            if not is_type and name not in _NO_CALLS and not (before in ("like", "ilike") and name in _AFTER_LIKE):
                arguments, last = _arguments(found, number + 1)
                yield Call(name, arguments, token.start, last.end)
        elif token.kind is TokenKind.WORD and name in WITHOUT_PARENTHESES and before != ".":
            yield Call(name, 0, token.start, token.end)
        before = name


def _arguments(found: tuple[Token, ...], opens: int) -> tuple[int, Token]:
    """Return how many arguments stand in the parentheses opened at a token, and the token that closes them."""
    depth = commas = 0
    for token in found[opens:]:
        if token.kind is TokenKind.SYMBOL:
            depth += (token.text in "([{") - (token.text in ")]}") if token.text else 0
            commas += token.text == "," and depth == 1
        if depth == 0:
            return (0 if token is found[opens + 1] else commas + 1), token
    return commas + 1, found[-1]
