"""One text for expressions that differ only in how they are written: ``(`a`>0)`` and ``a > 0``.

It is made from tokens, not from a parser's tree: fingerprints rest on it, so it may not change with a library's version, and a CHECK
must reach the table with every function and argument as its author wrote it. Space, comments, the case of keywords and functions,
outer parentheses, needless backticks, and ``!=`` and ``==`` are all that is made equal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_schemamig.core.schema.tokens import Kind, Token, tokens

_RESERVED = """
    ALL AND ANTI ANY AS ASC AT AUTHORIZATION BETWEEN BOTH BY CASE CAST CHECK COLLATE COLUMN CONSTRAINT CREATE CROSS CUBE CURRENT
    CURRENT_CATALOG CURRENT_DATABASE CURRENT_DATE CURRENT_SCHEMA CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER DESC DISTINCT DIV ELSE END
    ESCAPE EXCEPT EXISTS EXTRACT FALSE FETCH FILTER FOR FOREIGN FROM FULL FUNCTION GRANT GROUP GROUPING HAVING ILIKE IN INNER INTERSECT
    INTERVAL INTO IS JOIN LATERAL LEADING LEFT LIKE LIMIT LOCALTIMESTAMP MINUS NATURAL NOT NULL OFFSET ON ONLY OR ORDER OUTER OVERLAPS
    PRIMARY REFERENCES REGEXP RIGHT RLIKE SELECT SEMI SESSION_USER SETMINUS SOME SYMMETRIC TABLE TABLESAMPLE THEN TO TRAILING TRUE UNION
    UNIQUE UNKNOWN USER USING VALUES WHEN WHERE WINDOW WITH
"""
_NO_FUNCTIONS = "AND AS BETWEEN CASE DISTINCT DIV ELSE ESCAPE FROM ILIKE IN IS LIKE NOT OR REGEXP RLIKE THEN WHEN"
#: Spark's reserved words: in capitals where they stand bare, and the names that keep their backticks.
_KEYWORDS = frozenset(_RESERVED.split())
#: Keywords that are no functions: a parenthesis after them stands apart.
_APART = frozenset(_NO_FUNCTIONS.split())
_SPELLED = {"!=": "<>", "==": "="}
_SIGNS = frozenset({"-", "+", "~"})
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIMPLE_STRING = re.compile(r'"([^"\'\\]*)"')


@dataclass(frozen=True, slots=True)
class _Piece:
    text: str
    kind: Kind

    @property
    def is_operand_end(self) -> bool:
        """True if an operand may end here, so that a sign behind it is an operator between two."""
        return self.text in (")", "]") or (self.kind is not Kind.SYMBOL and self.text not in _KEYWORDS - {"NULL", "TRUE", "FALSE", "END"})


def canonical_text(text: str) -> str:
    """The canonical text of an expression; applying it again changes nothing. Raises BrokenText; syntax beyond tokens is not looked at."""
    found = _without_outer_parentheses([token for token in tokens(text) if token.end > token.start])
    return _joined(_pieces(found, text))


def may_stand_bare(name: str) -> bool:
    """True if a name needs no backticks."""
    return _PLAIN.fullmatch(name) is not None and name.upper() not in _KEYWORDS


def _without_outer_parentheses(found: list[Token]) -> list[Token]:
    while len(found) > 2 and found[0].text == "(" and _closing(found) == len(found) - 1:
        found = found[1:-1]
    return found


def _closing(found: Sequence[Token]) -> int:
    """Where the parenthesis that opens at 0 closes."""
    depth = 0
    for number, token in enumerate(found):
        if token.kind is Kind.SYMBOL:
            depth += (token.text == "(") - (token.text == ")")
        if depth == 0:
            return number
    return -1


def _pieces(found: Sequence[Token], text: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    last_start = -1
    for number, token in enumerate(found):
        if token.start == last_start:
            continue  # ``10L`` comes as three tokens of one place
        last_start = token.start
        following = found[number + 1] if number + 1 < len(found) else None
        pieces.append(_Piece(_text(token, text[token.start : token.end], pieces[-1].text if pieces else "", following), token.kind))
    return pieces


def _text(token: Token, source: str, before: str, following: Token | None) -> str:
    match token.kind:
        case Kind.QUOTED:
            return token.text if may_stand_bare(token.text) else source
        case Kind.STRING:
            return _SIMPLE_STRING.sub(r"'\1'", source)
        case Kind.SYMBOL:
            return _SPELLED.get(source, source)
        case Kind.WORD if before != "." and _is_spelled_in_capitals(source, before, following):
            return source.upper()
        case _:
            return source


def _is_spelled_in_capitals(word: str, before: str, following: Token | None) -> bool:
    """Keywords, functions, the type of a CAST, and the type of a literal (``date'2020-01-01'``); never a column."""
    if following is not None and (following.text == "(" or following.kind is Kind.STRING):
        return True
    return before == "AS" or (word.upper() in _KEYWORDS and _PLAIN.fullmatch(word) is not None)


def _joined(pieces: Sequence[_Piece]) -> str:
    parts: list[str] = []
    for number, piece in enumerate(pieces):
        before = pieces[number - 1] if number else None
        sign = before is not None and before.text in _SIGNS and not (number > 1 and pieces[number - 2].is_operand_end)
        if before is not None and not _touches(before, piece, sign):
            parts.append(" ")
        parts.append(piece.text)
    return "".join(parts)


def _touches(before: _Piece, piece: _Piece, sign: bool) -> bool:
    if before.kind is Kind.SYMBOL and before.text in ("(", "[", ".", "::"):
        return True
    if sign:
        return piece.text not in _SIGNS
    if piece.kind is not Kind.SYMBOL:
        return False
    if piece.text == "(":
        return before.kind is Kind.WORD and before.text not in _APART
    return piece.text in (")", "]", "[", ",", ".", "::")
