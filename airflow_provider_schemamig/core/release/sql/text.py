"""A SQL file cut into statements.

Done with one regular expression and before anything is tokenized, so that a statement whose text is known already costs nothing more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from airflow_provider_schemamig.core.schema.expressions.tokens import BrokenText

_PIECE = re.compile(
    r"""
      (?P<raw>(?<!\w)[rR](?:'[^']*'|"[^"]*"))
    | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<line>--[^\n]*)
    | (?P<comment>/\*)
    | (?P<end>;)
    | (?P<open>['"`])
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement without its semicolon and without space and comments before it. ``offset`` into the file's text."""

    text: str
    offset: int


#: First line of a statement -> one cut out before that begins so: its text with the semicolon, and without. Snapshots of a history differ
#: in one statement of many, and comparing text is a hundred times as fast as looking for its end. What is cut is the same either way.
_KNOWN: dict[str, tuple[str, str]] = {}
_MAX_KNOWN = 16384


def statements(text: str) -> tuple[Statement, ...]:
    """Return the statements of a file. Raises BrokenText."""
    found: list[Statement] = []
    begin: int | None = None  # of the statement: its first character that is neither space nor comment
    position = 0
    while True:
        if begin is None:
            position = _step_over_known(text, position, found)
        piece = _PIECE.search(text, position)
        if piece is None:
            break
        begin = _first_character(text, position, piece.start()) if begin is None else begin
        kind, position = piece.lastgroup, piece.end()
        if kind == "open":
            raise BrokenText(f"the {piece.group()} is never closed", piece.start())
        if kind == "comment":
            position = _comment_end(text, piece.start())
        elif kind == "end":
            if begin is not None:
                found.append(_cut(text, begin, piece.start()))
            begin = None
        elif kind != "line" and begin is None:
            begin = piece.start()
    begin = _first_character(text, position, len(text)) if begin is None else begin
    if begin is not None:
        found.append(Statement(text[begin:].rstrip(), begin))
    return tuple(found)


def _cut(text: str, begin: int, semicolon: int) -> Statement:
    text_with_end = text[begin : semicolon + 1]
    statement = Statement(text_with_end[:-1].rstrip(), begin)
    if len(_KNOWN) >= _MAX_KNOWN:
        _KNOWN.clear()
    _KNOWN[_first_line(text_with_end, 0)] = text_with_end, statement.text
    return statement


def _first_line(text: str, begin: int) -> str:
    end = text.find("\n", begin)
    return text[begin:] if end < 0 else text[begin:end]


def _step_over_known(text: str, position: int, found: list[Statement]) -> int:
    """Add the statements from ``position`` on that were cut out of another text before; return where the first other one may begin."""
    while True:
        begin = _first_character(text, position, len(text))
        if begin is None:
            return position
        known = _KNOWN.get(_first_line(text, begin))
        if known is None or not text.startswith(known[0], begin):
            return position
        found.append(Statement(known[1], begin))
        position = begin + len(known[0])


def line_comments(text: str) -> tuple[tuple[int, str], ...]:
    """Return the comments ``-- ...`` of a file that ``statements`` reads, each with its offset."""
    found: list[tuple[int, str]] = []
    position = 0
    while (piece := _PIECE.search(text, position)) is not None:
        position = _comment_end(text, piece.start()) if piece.lastgroup == "comment" else piece.end()
        if piece.lastgroup == "line":
            found.append((piece.start(), piece.group()))
    return tuple(found)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Return line and column, both counted from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _first_character(text: str, start: int, end: int) -> int | None:
    found = _WORD.search(text, start, end)
    return None if found is None else found.start()


def _comment_end(text: str, start: int) -> int:
    """Return where a bracketed comment ends: Spark's nest."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise BrokenText("the comment /* is never closed", start)
