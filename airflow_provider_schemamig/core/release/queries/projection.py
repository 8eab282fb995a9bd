"""A table of an earlier shape, shown in a later one: the SELECT list that queries written for the later release read.

Only what evolution does instantly can be shown: renamed, widened, added as NULL, relaxed and dropped fields, at any depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.release.columns import ColumnLevel, Origins, inner_levels, match
from airflow_provider_schemamig.core.schema.clauses import clauses_of
from airflow_provider_schemamig.core.schema.delta_rules.widening import is_widening
from airflow_provider_schemamig.core.schema.expressions.parse import with_own_values
from airflow_provider_schemamig.core.schema.expressions.tokens import Token, TokenKind, tokens
from airflow_provider_schemamig.core.schema.model import Array, DataType, Declaration, Field, Map, Primitive, Struct
from airflow_provider_schemamig.core.schema.sql import exact_type_sql, quote, string_sql, type_sql
from airflow_provider_schemamig.exceptions import Refusal


class NotProjectable(Refusal):
    """``path`` (of the later shape) cannot be had from the earlier shape without rewriting rows."""

    code = "not_projectable"
    message = "{path} cannot be shown from the table as it is: {reason}."
    next_action = "Upgrade to the release that makes this change first, so that the query finds the shape it was written for."
    path: str
    reason: str


def project(source: Declaration, target: Declaration, renames: Mapping[ColumnPath, str]) -> str:
    """Return the SELECT list in Spark SQL that shows a table of shape ``source`` as ``target``, columns in ``target``'s order.

    ``renames``: path in ``source`` -> new last name. Raises NotProjectable for the first field that needs more than an instant change.
    """
    projector = _Projector(source.name, match(source, target, renames))
    items = projector.fields(ColumnLevel("", source.fields, "", target.fields), "")
    return ", ".join(sql if sql == quote(name) else f"{sql} AS {quote(name)}" for name, sql in items)


def narrow_column(source: Field, target: Field) -> str:
    """Return the expression that shows a column as ``target``.

    ``target`` has the same fields or fewer, of the same types or narrower ones. The expression fails for a value where Spark's CAST does.
    """
    old, new = (Declaration(CollectionName("schemamig_column"), (field,)) for field in (source, target))
    projector = _Projector(old.name, match(old, new, {}), narrows=True)
    return projector.value(quote(source.name), source.type, target.type, source.name, target.name)


def with_columns(projection: str, values: Mapping[str, str]) -> str:
    """Return a SELECT list, of ``project`` or of names alone, with SQL in the place of the columns of its table (``values``)."""
    if not values:
        return projection
    items = []
    for value, name in _items(projection):
        shown = with_own_values(value, values)
        items.append(shown if shown == name else f"{shown} AS {name}")
    return ", ".join(items)


def _items(projection: str) -> Iterator[tuple[str, str]]:
    """Yield value and name of each item; a name alone is both."""
    begin, depth, end = 0, 0, len(projection)
    last: list[Token] = []
    for token in (*tokens(projection), Token(TokenKind.SYMBOL, ",", end, end)):
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind is TokenKind.SYMBOL else 0
        if token.kind is not TokenKind.SYMBOL or token.text != "," or depth:
            last.append(token)
            continue
        name = projection[last[-1].start : last[-1].end]
        has_alias = len(last) > 2 and last[-2].upper == "AS"
        yield projection[begin : last[-3].end].strip() if has_alias else name, name
        begin, last = token.end, []


class _Projector:
    def __init__(self, collection: str, origins: Origins, *, narrows: bool = False) -> None:
        """``narrows``: types become narrower, not wider."""
        self.collection = collection
        self.origins = origins
        self.narrows = narrows
        self.variables = 0

    def fields(self, level: ColumnLevel, container: str) -> list[tuple[str, str]]:
        """Return (name, expression) of each field of a struct, or of the columns; ``container`` is the struct's own expression."""
        found = {new.name: (old, old_path, new_path) for old, new, old_path, new_path in level.pairs(self.origins)}
        items = []
        for new in level.new:
            if new.name in found:
                old, old_path, new_path = found[new.name]
                self._not_tightened(old.nullable, new.nullable, new_path)
                sql = f"{container}{quote(old.name)}"
                items.append((new.name, self.value(sql, old.type, new.type, old_path, new_path)))
            else:
                items.append((new.name, self._added(new, f"{level.new_prefix}{new.name}")))
        return items

    def value(self, sql: str, old: DataType, new: DataType, old_path: str, new_path: str) -> str:
        """Return the expression that turns ``sql``, of type ``old``, into type ``new``."""
        match (old, new):
            case (Primitive(), Primitive()):
                return self._primitive(sql, old, new, new_path)
            case (Struct(), Struct()):
                return self._struct(sql, old, new, old_path, new_path)
            case (Array(), Array()):
                self._not_tightened(old.contains_null, new.contains_null, f"{new_path}.element")
                item = self._variable()
                inner = self.value(item, old.element, new.element, f"{old_path}.element", f"{new_path}.element")
                return sql if inner == item else f"TRANSFORM({sql}, {item} -> {inner})"
            case (Map(), Map()):
                return self._map(sql, old, new, old_path, new_path)
        raise self._refusal(new_path, f"{type_sql(old)} became {type_sql(new)}")

    def _primitive(self, sql: str, old: Primitive, new: Primitive, path: str) -> str:
        if old == new:
            return sql
        if not (is_widening(new, old) if self.narrows else is_widening(old, new)):
            raise self._refusal(path, f"{old.name} became {new.name}, which is no widening")
        before, after = stored_type(old), stored_type(new)
        return sql if before == after else f"CAST({sql} AS {exact_type_sql(after)})"

    def _struct(self, sql: str, old: Struct, new: Struct, old_path: str, new_path: str) -> str:
        [level] = inner_levels(old, new, old_path, new_path)
        items = self.fields(level, f"{sql}.")
        if [(name, value) for name, value in items] == [(f.name, f"{sql}.{quote(f.name)}") for f in old.fields]:
            return sql
        arguments = ", ".join(f"{string_sql(name)}, {value}" for name, value in items)
        return f"IF({sql} IS NULL, NULL, NAMED_STRUCT({arguments}))"

    def _map(self, sql: str, old: Map, new: Map, old_path: str, new_path: str) -> str:
        self._not_tightened(old.value_contains_null, new.value_contains_null, f"{new_path}.value")
        key, value = self._variable(), self._variable()
        new_key = self.value(key, old.key, new.key, f"{old_path}.key", f"{new_path}.key")
        new_value = self.value(value, old.value, new.value, f"{old_path}.value", f"{new_path}.value")
        if new_key != key and not self.narrows and not isinstance(old.key, Primitive):
            raise self._refusal(f"{new_path}.key", "keys of another shape may no longer differ")
        with_keys = sql if new_key == key else f"TRANSFORM_KEYS({sql}, ({key}, {value}) -> {new_key})"
        return with_keys if new_value == value else f"TRANSFORM_VALUES({with_keys}, ({key}, {value}) -> {new_value})"

    def _added(self, field: Field, path: str) -> str:
        for clause, text in clauses_of(field):
            raise self._refusal(path, f"it is added with {clause.sql(text)}, which older rows must be filled with")
        if not field.nullable:
            raise self._refusal(path, "it is added as NOT NULL, and older rows have nothing there")
        return f"CAST(NULL AS {exact_type_sql(stored_type(field.type))})"

    def _not_tightened(self, old_nullable: bool, new_nullable: bool, path: str) -> None:
        if old_nullable and not new_nullable:
            raise self._refusal(path, "it became NOT NULL, which older rows must be checked for")

    def _variable(self) -> str:
        self.variables += 1
        return f"x{self.variables}"

    def _refusal(self, path: str, reason: str) -> NotProjectable:
        return NotProjectable(collection=self.collection, path=path, reason=reason)


def stored_type(data_type: DataType) -> DataType:
    """Return the type with varchar(n) as the string it is stored as: a CAST to varchar is another thing in every Spark version."""
    match data_type:
        case Primitive(name=name):
            return Primitive("string") if name.startswith(("varchar(", "char(")) else data_type
        case Array(element=element):
            return Array(stored_type(element), data_type.contains_null)
        case Map(key=key, value=value):
            return Map(stored_type(key), stored_type(value), data_type.value_contains_null)
        case Struct(fields=fields):
            return Struct(tuple(Field(f.name, stored_type(f.type), f.nullable) for f in fields))
