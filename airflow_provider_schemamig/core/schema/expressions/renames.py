"""Renames followed into CHECK expressions: the names' places in the text change and nothing else.

The new text is parsed again and compared with the old one, name by name. What cannot be followed is refused: a name that stands for
itself (``struct(x).x``, ``to_json(s)``), and names that the types do not lead to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_schemamig.core.names import ColumnPath
from airflow_provider_schemamig.core.schema.expressions.parse import canonical_expression, parse_expression, spliced
from airflow_provider_schemamig.core.schema.expressions.paths import FollowedPath, follow, follow_column, leaves_below
from airflow_provider_schemamig.core.schema.model import Array, Field
from airflow_provider_schemamig.core.schema.sql import quote, string_sql
from airflow_provider_schemamig.exceptions import Refusal

if TYPE_CHECKING:
    from sqlglot import exp

#: Functions that never look at the names inside a value.
_NAMELESS = frozenset(["ARRAY_SIZE", "CARDINALITY", "ISNOTNULL", "ISNULL", "SIZE"])
#: Functions whose lambda alone decides what they give: the elements do not come out of them.
_GIVE_THE_LAMBDA = frozenset(["AGGREGATE", "EXISTS", "FORALL", "REDUCE", "TRANSFORM"])


class RenameInLambda(Refusal):
    """A CHECK uses a renamed field where the name cannot be told from others, inside a lambda mostly."""

    code = "rename_in_lambda"
    message = "{path} is renamed, and the CHECK ({expression}) uses that name where it cannot be followed."
    next_action = "Drop the CHECK in one release, rename in the next, and add the CHECK again in a third."
    expression: str
    path: str


def rename_columns(text: str, renames: Mapping[ColumnPath, str], fields: Sequence[Field]) -> str:
    """Return the expression with every renamed column or field under its new name, in canonical text.

    ``renames``: path before -> new last name; ``fields``: the columns before. Raises InvalidExpression, RenameInLambda.
    """
    if not renames:
        return text
    return _Renaming(canonical_expression(text), {path.lower(): (path, name) for path, name in renames.items()}, tuple(fields)).renamed()


@dataclass(frozen=True)
class _Renaming:
    """``text`` is canonical; ``wanted``: lower-case path -> path and new name."""

    text: str
    wanted: Mapping[str, tuple[ColumnPath, str]]
    fields: tuple[Field, ...]

    def renamed(self) -> str:
        from sqlglot import exp

        expression = parse_expression(self.text).copy()  # ``struct(x)`` shares the name of the field with that of the column
        followed = [follow_column(column, self.fields) for column in expression.find_all(exp.Column)]
        for reference in followed:
            self._refuse_lost(reference)
            self._refuse_names_inside(reference)
        self._refuse_lambdas(expression)
        found = [(name, path.lower()) for reference in followed for name, path in reference.named if path.lower() in self.wanted]
        places = {self._place(name, path): self._spelled(name, path) for name, path in found}
        if not places:
            return self.text
        text = canonical_expression(spliced(self.text, places))
        self._read_back(expression, found, text)
        return text

    def _refuse_lost(self, reference: FollowedPath) -> None:
        """Refuse a name that leads nowhere: it could be anybody's, a table's or a field's of a type that is not known."""
        names = {path.rpartition(".")[2]: path for path in self.wanted}
        for node in reference.lost:
            path = names.get(node.name.lower())
            if path is not None:
                raise self._refusal(path)

    def _refuse_names_inside(self, reference: FollowedPath) -> None:
        """Refuse a whole value with renamed fields inside: ``to_json(s)`` and ``f(s).x`` find other names after a rename."""
        inside = (path.lower() for path in leaves_below(reference.type, reference.path)) if not reference.lost else ()
        path = next((path for path in inside if path in self.wanted), None)
        if path is not None and not _names_do_not_count(reference):
            raise self._refusal(path)

    def _refuse_lambdas(self, expression: exp.Expr) -> None:
        from sqlglot import exp

        nested = {path.rpartition(".")[2]: path for path in self.wanted if "." in path}
        for function in expression.find_all(exp.Lambda):
            for name in function.find_all(exp.Identifier, exp.Literal):
                is_key = isinstance(name, exp.Literal) and name.is_string and isinstance(name.parent, exp.Bracket)
                is_field = isinstance(name, exp.Identifier) and not isinstance(name.parent, exp.Column)
                if (is_key or is_field) and name.name.lower() in nested:
                    raise self._refusal(nested[name.name.lower()])
        for zipped in expression.find_all(exp.ArraysZip):  # its structs are called like its arguments
            for column in zipped.expressions:
                path = follow_column(column, self.fields).path.lower() if isinstance(column, exp.Column) else ""
                if path in self.wanted:
                    raise self._refusal(path)
        if expression.find(exp.Star) is not None:
            raise self._refusal(next(iter(self.wanted)))

    def _place(self, name: exp.Expr, path: str) -> tuple[int, int]:
        """Start and end of a name in the text."""
        start, end = name.meta.get("start"), name.meta.get("end")
        if start is None or end is None or self.text[start : end + 1].strip("`'\"").lower() != name.name.lower():
            raise self._refusal(path)
        return start, end + 1

    def _spelled(self, name: exp.Expr, path: str) -> str:
        from sqlglot import exp

        _, new = self.wanted[path]
        return string_sql(new) if isinstance(name, exp.Literal) else quote(new)

    def _read_back(self, expression: exp.Expr, found: Sequence[tuple[exp.Expr, str]], text: str) -> None:
        """Check that the new text is the old tree with other names, and no other change."""
        for name, path in found:
            name.set("this", self.wanted[path][1])
        if _tree(expression) != _tree(parse_expression(text)):
            raise self._refusal(found[0][1])

    def _refusal(self, path: str) -> RenameInLambda:
        return RenameInLambda(expression=self.text, path=self.wanted[path][0])


def _names_do_not_count(reference: FollowedPath) -> bool:
    """Return whether a whole value stands where only its own being there, or its size, or single fields of its elements are looked at."""
    from sqlglot import exp

    node, parent = reference.node, reference.node.parent
    if isinstance(parent, exp.Is) and isinstance(parent.expression, exp.Null):
        return True
    if not isinstance(parent, exp.Func):
        return False
    names = {parent.name.upper()} if isinstance(parent, exp.Anonymous) else set(parent.sql_names())
    if names & _NAMELESS:
        return True
    arguments = [argument for argument in parent.iter_expressions() if argument is not node]
    lambdas = [argument for argument in arguments if isinstance(argument, exp.Lambda)]
    return bool(names & _GIVE_THE_LAMBDA) and bool(lambdas) and all(_uses_single_fields(body, reference) for body in lambdas)


def _uses_single_fields(body: exp.Lambda, reference: FollowedPath) -> bool:
    """Return whether a lambda over the elements takes nothing out of them that has fields of its own."""
    from sqlglot import exp

    variables = {variable.name.lower() for variable in body.expressions}
    element = reference.type.element if isinstance(reference.type, Array) else None
    for name in body.this.find_all(exp.Identifier):
        is_variable = name.name.lower() in variables and not isinstance(name.parent, exp.Column)
        if not is_variable or (isinstance(name.parent, exp.Dot) and name.arg_key == "expression"):
            continue
        end = None if element is None else follow(FollowedPath(name, element, reference.path))
        if end is None or end.lost or next(leaves_below(end.type, ""), None) is not None:
            return False
    return True


def _tree(expression: exp.Expr) -> exp.Expr:
    """Return a tree to compare, in which backticks do not count."""
    from sqlglot import exp

    copy = expression.copy()
    for name in copy.find_all(exp.Identifier):
        name.set("quoted", False)
    return copy
