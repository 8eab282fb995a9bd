"""What sqlglot reads and Spark's parser does not: it is made for many dialects, and takes what any of them might mean.

``tests/support/spark/query_corpus.py`` and ``expression_corpus.py`` hold queries, CHECKs and DEFAULTs that both judge alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import Token, exp

_PAIRS = {")": "(", "]": "[", "}": "{"}
_WORD = re.compile(r"\w+")
_COMPARISONS = frozenset({"=", "==", "<>", "!=", "<", ">", "<=", ">=", "<=>"})
#: After each of these a query or a parenthesis cannot end.
_UNFINISHED = frozenset({"BY", "ON", "USING", "AND", "OR", "IN", "LIKE", "BETWEEN", "AS", ","})
#: Clauses that stand before the rest of their SELECT's, and those that end it.
_EARLY, _LATE = frozenset({"WHERE", "GROUP BY", "HAVING"}), frozenset({"ORDER BY", "LIMIT"})
#: From here on the clauses of a SELECT begin anew; before FROM these words are names of columns.
_ANEW = frozenset({"FROM", "UNION", "EXCEPT", "INTERSECT"})
#: What follows a name among the items of a SELECT, and begins none.
_AFTER_A_NAME = frozenset({".", ",", "[", ")", ";", ":", "::", "AS", "FROM", "WHERE", "LATERAL", "UNION"}) | _COMPARISONS
_NO_BRACKETS = "an array is written as array(...)"


def unlike_spark(text: str, tree: exp.Expr) -> tuple[int, int, str] | None:
    """Return line, column and reason of the first place where Spark would not parse a (masked) query or an expression; None if there is
    none."""
    import sqlglot

    tokens = sqlglot.tokenize(text, dialect="spark")
    for token, reason in _in_tokens(tokens):
        return token.line, max(1, token.col - len(token.text) + 1), reason
    for reason in _in_tree(tree):
        return 1, 1, reason
    return None


def _in_tokens(tokens: Sequence[Token]) -> Iterator[tuple[Token, str]]:
    yield from _unbalanced(tokens)
    words = [token.text.upper() for token in tokens]
    has_types = any(pair in ((name, "<") for name in ("ARRAY", "MAP", "STRUCT")) for pair in pairwise(words))
    for before, token in zip([None, *tokens], tokens, strict=False):
        # ARRAY<ARRAY<INT>> ends with two of them.
        if not (has_types and token.text == ">") and (reason := _beside(before, token)):
            yield token, reason
    if tokens and words[-1].rpartition(" ")[2] in _UNFINISHED and _is_syntax(tokens[-1]):
        yield tokens[-1], f"it ends after {words[-1]}"
    if words.count("WHEN") > words.count("THEN") and "CASE" in words:
        yield tokens[words.index("CASE")], "a WHEN of it has no THEN"
    for first, _, last, arrow in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False):
        if (first.text, last.text, arrow.text) == ("(", ")", "->") and all(map(_is_syntax, (first, last, arrow))):
            yield first, "one parameter of a function stands in no parentheses"
    yield from _all_as_a_name(tokens)
    yield from _out_of_order(tokens)


def _unbalanced(tokens: Sequence[Token]) -> Iterator[tuple[Token, str]]:
    opened: list[Token] = []
    for token in filter(_is_syntax, tokens):
        if token.text in _PAIRS.values():
            opened.append(token)
        elif token.text in _PAIRS and (not opened or opened.pop().text != _PAIRS[token.text]):
            yield token, f"{token.text!r} closes nothing"
    if opened:
        yield opened[-1], f"{opened[-1].text!r} is not closed"


def _beside(before: Token | None, token: Token) -> str | None:
    """Return why the token cannot stand there."""
    from sqlglot import TokenType as T

    if token.token_type in (T.PLACEHOLDER, T.PARAMETER):
        return f"{token.text!r} stands for nothing here"
    if token.token_type is T.VAR and not _WORD.fullmatch(token.text):
        return f"{token.text!r} is a name in backticks only"
    if before is None and token.text == "[" and _is_syntax(token):
        return _NO_BRACKETS
    if before is None or not _is_syntax(before):
        return None
    first, second = before.text.upper(), token.text if _is_syntax(token) else ""
    if second in (",", ")") and (first == "," or (first in ("(", "SELECT", "BY") and second == ",")):
        return f"nothing stands before {token.text!r}"
    if first == "AS" and token.token_type in (T.NUMBER, T.STRING):
        return f"{token.text!r} is no name"
    if first in ("DATE", "TIMESTAMP") and token.token_type is T.NUMBER:
        return f"a {first} is written as a text"
    if first in _COMPARISONS and second in _COMPARISONS:
        return f"{token.text!r} after {before.text!r}"
    if second == "[" and before.token_type not in (T.VAR, T.R_PAREN, T.R_BRACKET) and not first.isidentifier():
        return _NO_BRACKETS
    return _NO_BRACKETS if second == "[" and first == "SELECT" else None


def _all_as_a_name(tokens: Sequence[Token]) -> Iterator[tuple[Token, str]]:
    """Yield each ALL after SELECT that no item follows: Spark takes it for a name, and sqlglot leaves it out."""
    from sqlglot import TokenType as T

    words = [token for token in tokens if token.token_type is not T.HINT]
    for before, token, after in zip(words, words[1:], [*words[2:], None], strict=False):
        if before.token_type is T.SELECT and token.token_type is T.ALL and (after is None or _ends_a_name(after)):
            yield token, f"{token.text!r} after SELECT is a name in backticks only"


def _ends_a_name(token: Token) -> bool:
    return _is_syntax(token) and token.text.upper() in _AFTER_A_NAME


def _out_of_order(tokens: Sequence[Token]) -> Iterator[tuple[Token, str]]:
    late: list[str] = [""]
    for token in filter(_is_syntax, tokens):
        word = token.text.upper()
        if word == "(":
            late.append("")
        elif word == ")":
            late.pop()
        elif word in _ANEW:
            late[-1] = ""
        elif word in _LATE:
            late[-1] = word
        elif word in _EARLY and late[-1]:
            yield token, f"{word} after {late[-1]}"


def _is_syntax(token: Token) -> bool:
    """Return whether it is a word or sign, and no text or quoted name that reads like one."""
    from sqlglot import TokenType as T

    return token.token_type not in (T.STRING, T.IDENTIFIER)


def _in_tree(tree: exp.Expr) -> Iterator[str]:
    from sqlglot import exp

    for node in tree.walk():
        match node:
            case exp.Into() | exp.Fetch() | exp.Lock():
                yield f"Spark has no {node.key.upper()} in a SELECT"
            case exp.In() if not any(node.args.get(name) for name in ("expressions", "query", "unnest", "field")):
                yield "IN has nothing to look in"
            case exp.Is() if not isinstance(node.expression, exp.Null | exp.Boolean):
                yield "IS asks for NULL, TRUE, FALSE or DISTINCT FROM only"
            case exp.Join() if node.args.get("using") == [] or _is_without_columns(node):
                yield "a JOIN of it has USING without columns"
            case exp.WindowSpec() if _is_sideless(node, "start") or _is_sideless(node, "end"):
                yield "a window's frame says neither PRECEDING nor FOLLOWING"
            case exp.Lateral() if node.args.get("view") and not (node.alias or node.alias_column_names):
                yield "a LATERAL VIEW has no name for its column"
            case exp.DataType() if node.this is exp.DataType.Type.MAP and len(node.expressions) not in (0, 2):
                yield "a MAP has a type for keys and one for values"


def _is_without_columns(join: exp.Join) -> bool:
    return "using" in join.args and not join.args["using"]


def _is_sideless(frame: exp.WindowSpec, end: str) -> bool:
    bound = frame.args.get(end)
    return bound is not None and not isinstance(bound, str) and not frame.args.get(f"{end}_side")
