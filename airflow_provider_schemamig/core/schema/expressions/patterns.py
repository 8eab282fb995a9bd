"""Constant patterns that no row can be held against: what Spark's LIKE and Java's regular expressions refuse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

#: What Python says of a pattern that Java cannot read either.
_BROKEN_PATTERN = (
    *("missing ), unterminated subpattern", "unbalanced parenthesis", "unterminated character set"),
    *("min repeat greater than max repeat", "bad escape (end of pattern)"),
)
#: A range from a later letter to an earlier one. With a class at one end (``[\w-.]``) Python says the same, and Java reads three members.
_REVERSED_RANGE = re.compile(r"bad character range [^\\]-[^\\]( |$)")
#: What Java does not read: Python's named groups, braces that begin no repetition, and a repetition of nothing or of another one.
_NOT_JAVA = re.compile(r"\(\?P|\{(?!\d+(?:,\d*)?\})|(?:^|\|)[*+?]|\([*+]|(?:[*+?]|\{\d+(?:,\d*)?\})[?+]?+[*+?]")
_NESTED = re.compile(r"\[[^\]]*\[|&&")
#: Escapes, of which ``\p{L}`` has braces of its own, and what stands in brackets.
_PLAIN_PARTS = re.compile(r"\\[pPxNugk]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)


def pattern_faults(parsed: exp.Expr) -> Iterator[str]:
    from sqlglot import exp

    for like in parsed.find_all(exp.RegexpLike, exp.Like, exp.ILike):
        for pattern in _literals(like.expression):
            fault = _pattern_fault(pattern) if isinstance(like, exp.RegexpLike) else _like_fault(pattern, like.parent)
            if fault is not None:
                yield fault


def _literals(pattern: exp.Expr) -> Iterator[str]:
    """Yield the constant patterns, of which LIKE ANY has several."""
    from sqlglot import exp

    if isinstance(pattern, exp.Any | exp.All):
        inner = pattern.this
        for item in inner.expressions if isinstance(inner, exp.Tuple) else [inner.unnest()]:
            yield from _literals(item)
    elif isinstance(pattern, exp.Literal):
        yield pattern.name


def _pattern_fault(pattern: str) -> str | None:
    if "\\Q" in pattern or _NESTED.search(pattern):
        return None  # what is quoted is no pattern, and where it ends Python does not know; nor does it know sets in sets
    try:
        re.compile(pattern)
    except OverflowError:
        return f"the pattern {pattern!r} repeats too often"
    except re.error as error:
        if error.msg.startswith(_BROKEN_PATTERN) or _REVERSED_RANGE.match(error.msg):
            return f"the pattern {pattern!r} is broken: {error.msg}"
    found = _NOT_JAVA.search(_PLAIN_PARTS.sub("x", pattern))
    return f"the pattern {pattern!r} is broken: Java knows no {found[0]} here" if found else None


def _like_fault(pattern: str, parent: exp.Expr | None) -> str | None:
    """Return a fault unless the escape sign comes before ``_``, ``%`` or itself; ``parent``: an ESCAPE, which may name another sign than
    the backslash."""
    from sqlglot import exp

    sign = parent.expression.name if isinstance(parent, exp.Escape) else "\\"
    if len(sign) != 1:
        return f"ESCAPE {sign!r} is not one character"
    rest = re.sub(f"{re.escape(sign)}[_%{re.escape(sign)}]", "", pattern)
    return f"{sign} stands before nothing that it could escape in {pattern!r}" if sign in rest else None
