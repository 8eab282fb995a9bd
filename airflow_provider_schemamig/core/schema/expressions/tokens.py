"""Spark SQL's tokens: sqlglot's, with keywords of several words (``PRIMARY KEY``) taken apart."""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any, NamedTuple

_WORD = re.compile(r"\S+")
_NAME = re.compile(r"\w+")
#: A statement that has none of the words after which sqlglot takes text as it stands, and the tokens of one that is nothing but words,
#: whole numbers, simple strings and single symbols, as nearly every CREATE TABLE is.
_PLAIN_STATEMENT = re.compile(r"(?!.*\bbegin\b)create[ \t\r\n]+table\b", re.IGNORECASE | re.DOTALL)
_PLAIN = re.compile(
    r"""[ \t\r\n]*+(?:
      (?P<WORD>[A-Za-z_]\w*+(?!['"`]))
    | (?P<SYMBOL>[(),] | >(?![=:|&]) | [<:=](?![<>:=|&]))
    | (?P<NUMBER>\d++(?!\w))
    | (?P<STRING>'[^'\\]*+'(?!['"\w]))
    )""",
    re.VERBOSE | re.ASCII,
)


class BrokenText(ValueError):
    """A string, quoted name or comment without an end, or text that is no SQL at all. ``offset`` into the text."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset


class TokenKind(StrEnum):
    WORD = "word"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"


#: By the name of the group that found it; an enum's own look by name takes six times as long.
_KINDS = dict(TokenKind.__members__)


class Token(NamedTuple):
    """``text`` is the value (a string's without quotes), ``start`` and ``end`` its place in the statement, end exclusive."""

    kind: TokenKind
    text: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        """Return a bare word in capitals, to compare with keywords; other tokens never equal a keyword."""
        return self.text.upper() if self.kind is TokenKind.WORD else ""


def tokens(text: str) -> tuple[Token, ...]:
    """Return the tokens of one statement. Raises BrokenText."""
    return _plain_tokens(text) or _all_tokens(text)


def _plain_tokens(text: str) -> tuple[Token, ...]:
    """Return what ``_all_tokens`` does, of a plain statement; nothing of another one.

    By one expression, as sqlglot's tokenizer goes from letter to letter: 1,000 tables of 15 columns take 0.05 s where that takes 0.24.
    """
    if _PLAIN_STATEMENT.match(text) is None:
        return ()
    found: list[Token] = []
    step, end = _PLAIN.scanner(text).match, 0  # type: ignore[attr-defined]  # typeshed does not know it
    while (piece := step()) is not None:
        kind, (start, end) = _KINDS[piece.lastgroup], piece.span(piece.lastgroup)
        quote = kind is TokenKind.STRING
        found.append(Token(kind, sys.intern(text[start + quote : end - quote]), start, end))
    return () if text[end:].strip() else tuple(found)


def _all_tokens(text: str) -> tuple[Token, ...]:
    from sqlglot.errors import TokenError

    dialect, kinds = _spark()
    try:
        raw = dialect.tokenize(text)
    except TokenError as error:
        raise BrokenText(str(error), 0) from error
    found: list[Token] = []
    for token in raw:
        value, kind = token.text, kinds.get(token.token_type)
        if kind is None and len(value.split()) > 1:
            found += _words(text, token.start, token.end + 1)
        elif kind is TokenKind.STRING and found and _is_one_string(text, found[-1], token.start):
            found[-1] = Token(TokenKind.STRING, found[-1].text + text[token.start] + value, found[-1].start, token.end + 1)
        else:
            found.append(Token(kind or _kind(value), value, token.start, token.end + 1))
    return tuple(found)


def _is_one_string(text: str, last: Token, start: int) -> bool:
    """Return whether two string tokens are one string: Spark 4.0 reads ``'it''s'`` as one with a quote in it, sqlglot sees two."""
    return last.kind is TokenKind.STRING and last.end == start and text[last.start] == text[start] and text[start] in "'\""


@cache
def _spark() -> tuple[Any, dict[Any, TokenKind]]:
    """Return sqlglot's dialect, imported when the first statement is read, and the kinds of its tokens that are neither word nor symbol."""
    from sqlglot import TokenType
    from sqlglot.dialects.spark import Spark

    strings = {TokenType.STRING: TokenKind.STRING, TokenType.RAW_STRING: TokenKind.STRING}
    return Spark(), {TokenType.IDENTIFIER: TokenKind.QUOTED, TokenType.NUMBER: TokenKind.NUMBER, **strings}


@lru_cache(maxsize=4096)
def _kind(value: str) -> TokenKind:
    return TokenKind.WORD if _NAME.match(value) else TokenKind.SYMBOL


def _words(text: str, start: int, end: int) -> list[Token]:
    """Split a keyword of several words."""
    return [Token(TokenKind.WORD, word.group(), start + word.start(), start + word.end()) for word in _WORD.finditer(text[start:end])]
