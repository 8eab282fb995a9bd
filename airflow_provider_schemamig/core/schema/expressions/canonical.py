"""One text for expressions that differ only in how they are written: ``(`a`>0)`` and ``a > 0``.

It is made from tokens, not from a parser's tree: fingerprints rest on it, so it may not change with a library's version, and a CHECK
must reach the table with every function and argument as its author wrote it. Space, comments, the case of keywords and functions,
outer parentheses, needless backticks, and ``!=`` and ``==`` are all that is made equal.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_schemamig.core.schema.expressions.tokens import BrokenText, Token, TokenKind, tokens

_RESERVED = """
    ALL AND ANTI ANY AS ASC AT AUTHORIZATION BETWEEN BOTH BY CASE CAST CHECK COLLATE COLUMN CONSTRAINT CREATE CROSS CUBE CURRENT
    CURRENT_CATALOG CURRENT_DATABASE CURRENT_DATE CURRENT_SCHEMA CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER DESC DISTINCT DIV ELSE END
    ESCAPE EXCEPT EXISTS EXTRACT FALSE FETCH FILTER FOR FOREIGN FROM FULL FUNCTION GRANT GROUP GROUPING HAVING ILIKE IN INNER INTERSECT
    INTERVAL INTO IS JOIN LATERAL LEADING LEFT LIKE LIMIT LOCALTIMESTAMP MINUS NATURAL NOT NULL OFFSET ON ONLY OR ORDER OUTER OVERLAPS
    PRIMARY REFERENCES REGEXP RIGHT RLIKE SELECT SEMI SESSION_USER SETMINUS SOME SYMMETRIC TABLE TABLESAMPLE THEN TO TRAILING TRUE UNION
    UNIQUE UNKNOWN USER USING VALUES WHEN WHERE WINDOW WITH
"""
#: Names to Spark, and to sqlglot the beginning of a statement or an operator: in backticks they are names to both.
_BACKTICKED = """
    ALTER ANALYZE BEGIN CACHE CALL COMMENT COMMIT CONNECT_BY_ROOT COPY DECLARE DELETE DESCRIBE DROP EXECUTE EXPLAIN GLOB IF INSERT
    ISNULL KILL LIST LOAD MERGE NOTNULL NULLABLE OBJECT OPTIMIZE PARTITIONED_BY PIVOT PRAGMA PREPARE QUALIFY RANGE REFRESH RENAME
    RETURNING REVOKE ROLLBACK SERDEPROPERTIES SET SHOW SIMILAR TRUNCATE UNCACHE UNPIVOT UPDATE USE VACUUM WHILE XOR
"""
_NO_FUNCTIONS = "AND AS BETWEEN CASE DISTINCT DIV ELSE ESCAPE FROM ILIKE IN IS LIKE NOT OR REGEXP RLIKE THEN WHEN"
#: Spark's reserved words: in capitals where they stand bare, and the names that keep their backticks.
_KEYWORDS = frozenset(_RESERVED.split())
_NAMES = frozenset(_BACKTICKED.split())
#: Types with others inside: a name of these is none to sqlglot before ``<``.
_TYPES = frozenset({"ARRAY", "MAP", "STRUCT"})
#: Keywords that are no functions: a parenthesis after them stands apart.
_APART = frozenset(_NO_FUNCTIONS.split())
#: Functions with a type behind AS; behind any other AS comes a name, which counts as it is spelled (``to_json``).
_CASTS = frozenset({"CAST", "TRY_CAST"})
_WITH_TYPES_INSIDE = ("array", "map", "struct")
_SPELLED = {"!=": "<>", "==": "="}
_SIGNS = frozenset({"-", "+", "~"})
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: In double quotes, with nothing inside that means something else in single ones.
_DOUBLE_QUOTED = re.compile(r'"([^"\'\\]*)"')


@dataclass(frozen=True, slots=True)
class _Piece:
    text: str
    kind: TokenKind

    @property
    def is_operand_end(self) -> bool:
        """Return whether an operand may end here, so that a sign behind it is an operator between two."""
        return self.text in (")", "]") or (
            self.kind is not TokenKind.SYMBOL and self.text not in _KEYWORDS - {"NULL", "TRUE", "FALSE", "END"}
        )


@functools.lru_cache(maxsize=16384)
def canonical_text(text: str) -> str:
    """Return the canonical text of an expression; applying it again changes nothing.

    It goes into fingerprints and onto tables, so it is read back: it has the very tokens of ``text``, or it is refused. Raises BrokenText;
    syntax beyond tokens is not looked at.
    """
    found = _without_outer_parentheses(_tokens(text))
    _refuse_shifts(found)
    canonical = _joined(_pieces(found, text))
    if [_value(token) for token in _tokens(canonical)] != [_value(token) for token in found]:
        raise BrokenText("its canonical text reads otherwise", 0)
    return canonical


def may_stand_bare(name: str) -> bool:
    """Return whether a name needs no backticks."""
    return _PLAIN.fullmatch(name) is not None and name.upper() not in _KEYWORDS | _NAMES | _TYPES


def _tokens(text: str) -> list[Token]:
    return [token for token in tokens(text) if token.end > token.start]


def _value(token: Token) -> tuple[str, str]:
    """Return a value equal for tokens that mean the same: backticks, case and the spelling of operators do not count, a string's text
    does."""
    match token.kind:
        case TokenKind.WORD | TokenKind.QUOTED:
            return "name", token.text.lower()
        case TokenKind.SYMBOL:
            return "symbol", _SPELLED.get(token.text, token.text)
        case _:
            return token.kind, token.text


def _without_outer_parentheses(found: list[Token]) -> list[Token]:
    while len(found) > 2 and found[0].text == "(" and _closing(found) == len(found) - 1:
        found = found[1:-1]
    return found


def _refuse_shifts(found: Sequence[Token]) -> None:
    """Raise BrokenText for ``<<`` and ``>>``: Delta puts blanks between the signs of a CHECK, and reads none of them back."""
    depth = 0  # of ARRAY<...>, whose ends may stand together
    for before, token in itertools.pairwise(found):
        if token.kind is not TokenKind.SYMBOL or token.text not in ("<", ">"):
            continue
        if token.text == "<" and before.text.lower() in _WITH_TYPES_INSIDE:
            depth += 1
        elif token.text == ">" and depth:
            depth -= 1
        elif before.kind is TokenKind.SYMBOL and before.text == token.text:
            function = "SHIFTLEFT" if token.text == "<" else "SHIFTRIGHT"
            raise BrokenText(f"Delta knows no {token.text * 2}: write {function}(a, n)", token.start)


def _closing(found: Sequence[Token]) -> int:
    """Return the index of the parenthesis that closes the one at 0; -1 if none does."""
    depth = 0
    for number, token in enumerate(found):
        if token.kind is TokenKind.SYMBOL:
            depth += (token.text == "(") - (token.text == ")")
        if depth == 0:
            return number
    return -1


def _pieces(found: Sequence[Token], text: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    last_start = -1
    openers = [""]
    for number, token in enumerate(found):
        if token.start == last_start:
            continue  # ``10L`` comes as three tokens of one place
        last_start = token.start
        before = pieces[-1].text if pieces else ""
        if token.kind is TokenKind.SYMBOL and token.text == "(":
            openers.append(before)
        elif token.kind is TokenKind.SYMBOL and token.text == ")" and len(openers) > 1:
            openers.pop()
        following = found[number + 1] if number + 1 < len(found) else None
        is_type = before == "AS" and openers[-1] in _CASTS
        pieces.append(_Piece(_text(token, text[token.start : token.end], before, is_type, following), token.kind))
    return pieces


def _text(token: Token, source: str, before: str, is_type: bool, following: Token | None) -> str:
    match token.kind:
        case TokenKind.QUOTED:
            return token.text if may_stand_bare(token.text) else source
        case TokenKind.STRING:
            simple = _DOUBLE_QUOTED.fullmatch(source)
            return source if simple is None else f"'{simple[1]}'"
        case TokenKind.SYMBOL:
            return _SPELLED.get(source, source)
        case TokenKind.WORD if is_type or (before not in (".", "AS") and _is_spelled_in_capitals(source, following)):
            return source.upper()
        case TokenKind.WORD if before != "." and (following is None or following.text != "(") and source.upper() in _NAMES:
            return f"`{source}`"
        case TokenKind.WORD if not source.isascii():
            return f"`{source}`"
        case _:
            return source


def _is_spelled_in_capitals(word: str, following: Token | None) -> bool:
    """Return whether a word is a keyword, a function or the type of a literal (``date'2020-01-01'``), not a column or a field's name behind
    AS."""
    if following is not None and (following.text == "(" or following.kind is TokenKind.STRING):
        return True
    return word.upper() in _KEYWORDS and _PLAIN.fullmatch(word) is not None


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
    if before.kind is TokenKind.SYMBOL and before.text in ("(", "[", ".", "::"):
        return True
    if sign:
        return piece.text not in _SIGNS
    if piece.kind is not TokenKind.SYMBOL:
        return False
    if piece.text == "(":
        return before.kind is TokenKind.WORD and before.text not in _APART
    return piece.text in (")", "]", "[", ",", ".", "::")
