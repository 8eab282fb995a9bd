"""Walking over a statement's tokens, and collecting what is wrong with it."""

from __future__ import annotations

from typing import Any, TypeVar

from airflow_provider_schemamig.core.names import RESERVED_PREFIX, InvalidName, column_name
from airflow_provider_schemamig.core.release.sql.errors import InvalidSqlName, SqlRefusal, SqlSyntax
from airflow_provider_schemamig.core.release.sql.syntax import unlike_spark
from airflow_provider_schemamig.core.release.sql.text import line_and_column
from airflow_provider_schemamig.core.schema.expressions.parse import InvalidExpression, canonical_expression, has_subquery, parse_expression
from airflow_provider_schemamig.core.schema.expressions.tokens import Token, TokenKind

R = TypeVar("R", bound=SqlRefusal)

#: What a keyword or a symbol of the grammar may be; a quoted name or a string never is one.
_KEYWORDS = frozenset({TokenKind.WORD, TokenKind.SYMBOL})


class Cursor:
    """One statement. What breaks its grammar is raised; what is merely wrong goes to ``refusals``, so that one run finds all of it.

    Places in errors are relative to the statement, with an empty file: ``release.parse`` moves them to where the statement stands.
    """

    def __init__(self, text: str, tokens: tuple[Token, ...]) -> None:
        self.text = text
        self.refusals: list[SqlRefusal] = []
        self._tokens = tokens
        self._position = 0
        self._end = Token(TokenKind.SYMBOL, "the end of the statement", len(text), len(text))

    def peek(self, offset: int = 0) -> Token:
        try:
            return self._tokens[self._position + offset]
        except IndexError:
            return self._end

    @property
    def at_end(self) -> bool:
        return self._position >= len(self._tokens)

    @property
    def at_end_of_element(self) -> bool:
        token = self.peek()
        return token.text in (",", ")") and token.kind is TokenKind.SYMBOL

    def next(self) -> Token:
        token = self.peek()
        self._position += 1
        return token

    def looks_at(self, *words: str) -> bool:
        """Return whether the next tokens are these keywords (capitals) or symbols."""
        next_tokens = self._tokens[self._position : self._position + len(words)]
        for token, word in zip(next_tokens, words, strict=False):
            if token.text.upper() != word or token.kind not in _KEYWORDS:
                return False
        return len(next_tokens) == len(words)

    def accept(self, *words: str) -> bool:
        """Step over these keywords or symbols if they come next."""
        if not self.looks_at(*words):
            return False
        self._position += len(words)
        return True

    def expect(self, *words: str) -> Token:
        """Step over these keywords or symbols and give the first; raises SqlSyntax if something else comes."""
        token = self.peek()
        if not self.accept(*words):
            raise self.unexpected(" ".join(words))
        return token

    def string(self) -> str:
        if self.peek().kind is not TokenKind.STRING:
            raise self.unexpected("a string")
        return self.next().text

    def integer(self) -> int:
        token = self.peek()
        if token.kind is not TokenKind.NUMBER or not token.text.isdecimal():
            raise self.unexpected("a whole number")
        return int(self.next().text)

    def name(self) -> Token:
        if self.peek().kind not in (TokenKind.WORD, TokenKind.QUOTED):
            raise self.unexpected("a name")
        return self.next()

    def column_name(self) -> Token:
        """Read a column's or field's name; a name that breaks the rules is noted."""
        token = self.name()
        try:
            column_name(token.text)
            if token.text.lower().startswith(f"{RESERVED_PREFIX}_"):
                rule = f"names beginning with {RESERVED_PREFIX}_ are its own"
                self.note(InvalidSqlName, token, kind="column", name=token.text, rule=rule)
        except InvalidName as error:
            self.note(InvalidSqlName, token, kind="column", name=token.text, rule=error.rule)
        return token

    def names(self) -> list[Token]:
        """Read ``(a, b, c)``."""
        self.expect("(")
        found = [self.name()]
        while self.accept(","):
            found.append(self.name())
        self.expect(")")
        return found

    def parenthesized_expression(self) -> tuple[str, Token]:
        """Return the canonical text inside ``( ... )``, and the token it begins with. Raises SqlSyntax."""
        self.expect("(")
        found = self.expression()
        self.expect(")")
        return found

    def expression(self, *ends: str) -> tuple[str, Token]:
        """Return the canonical text up to a comma, a closing parenthesis, a column option or one of ``ends``. Raises SqlSyntax."""
        first, last, depth = self.peek(), None, 0
        while not self.at_end and not (depth == 0 and self._ends_expression(last, ends)):
            last = self.next()
            if last.kind is TokenKind.SYMBOL:
                depth += (last.text in "([{") - (last.text in ")]}")
        if last is None:
            raise self.unexpected("an expression")
        return self._canonical(self.text[first.start : last.end], first), first

    def _ends_expression(self, last: Token | None, ends: tuple[str, ...]) -> bool:
        if self.at_end_of_element:
            return True
        if self.looks_at("NOT", "NULL"):
            return last is not None and last.upper != "IS"
        options = ("COMMENT", "CONSTRAINT", "REFERENCES", "UNIQUE", "DEFAULT", "GENERATED", "COLLATE", *ends)
        return any(map(self.looks_at, options)) or self.looks_at("CHECK", "(") or self.looks_at("PRIMARY", "KEY")

    def _canonical(self, text: str, first: Token) -> str:
        try:
            canonical = canonical_expression(text)
        except InvalidExpression as error:
            raise self._misplaced(first, error.line, error.column, error.reason) from error
        if (unlike := unlike_spark(text, parse_expression(text))) is not None:
            raise self._misplaced(first, *unlike)
        if has_subquery(text):
            raise self.syntax("an expression of a declaration cannot read a table", first)
        return canonical

    def _misplaced(self, first: Token, line: int | None, column: int | None, reason: str) -> SqlSyntax:
        """Make an error about a place within the expression that begins with ``first``."""
        at_line, at_column = self.place(first)
        if line is not None and column is not None:
            at_line, at_column = at_line + line - 1, column + (at_column - 1 if line == 1 else 0)
        return SqlSyntax(file="", line=at_line, column=at_column, reason=f"no valid expression: {reason.rstrip('.')}")

    def place(self, token: Token) -> tuple[int, int]:
        """Return line and column within the statement."""
        return line_and_column(self.text, token.start)

    def refusal(self, error: type[R], token: Token, **fields: Any) -> R:
        """Make an error about ``token``; ``fields`` are those of its class."""
        line, column = self.place(token)
        return error(file="", line=line, column=column, **fields)

    def note(self, error: type[SqlRefusal], token: Token, **fields: Any) -> None:
        self.refusals.append(self.refusal(error, token, **fields))

    def syntax(self, reason: str, token: Token) -> SqlSyntax:
        return self.refusal(SqlSyntax, token, reason=reason)

    def unexpected(self, wanted: str) -> SqlSyntax:
        token = self.peek()
        return self.syntax(f"expected {wanted}, found {token.text}", token)
