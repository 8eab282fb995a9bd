"""The one door to sqlglot: it counts on every function having its arguments, and here nothing does."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

_SURPRISES = (AttributeError, LookupError, TypeError, ValueError)


def parse_statements(text: str) -> list[exp.Expr]:
    """Parse Spark SQL into sqlglot's trees, one a statement; an expression is one, too. Raises ParseError, TokenError.

    Left to itself, ``map(1)`` ends in an IndexError, ``date_trunc()`` in a ValueError, and ``set > 0`` as a statement that nobody looked
    into, with a warning in the log.
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError

    try:
        found = [statement for statement in sqlglot.parse(text, dialect="spark") if statement is not None]
    except _SURPRISES as error:
        raise ParseError("a function in it has the wrong number of arguments") from error
    except RecursionError as error:
        raise ParseError("it is nested too deeply") from error
    if any(isinstance(statement, exp.Command) for statement in found):
        raise ParseError("it is no expression and no query")
    return found


def _is_no_fall_back(record: logging.LogRecord) -> bool:
    return "Falling back to parsing as a 'Command'" not in record.getMessage()


logging.getLogger("sqlglot").addFilter(_is_no_fall_back)  # such a text is refused here, in words


def parse_one(text: str) -> exp.Expr:
    """Parse what is one expression or statement. Raises ParseError, also where it is none or several; TokenError."""
    from sqlglot.errors import ParseError

    found = parse_statements(text)
    if len(found) != 1:
        raise ParseError(f"it holds {len(found)} statements")
    return found[0]


def spark_text(node: exp.Expr) -> str:
    """Return a part of a tree as Spark SQL; only its kind where sqlglot cannot write it, such as ``regexp_replace(a, b)``."""
    try:
        return node.sql(dialect="spark")
    except (*_SURPRISES, RecursionError):
        return type(node).__name__
