"""Random declarations and random evolutions of them, nested, with few names so that they collide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.schema.expressions.canonical import may_stand_bare
from airflow_provider_schemamig.core.schema.model import Array, Check, DataType, Declaration, Field, ForeignKey, Key, Map, Primitive, Struct
from airflow_provider_schemamig.core.schema.ordering import sorted_checks, sorted_foreign_keys, sorted_keys, sorted_properties
from airflow_provider_schemamig.core.schema.paths import Fields, join
from airflow_provider_schemamig.core.schema.sql import quote

NAME = CollectionName("flights")
NAMES = ("a", "b", "c", "d", "E", "f_1", "größe", "date")
ATOMS = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp", "timestamp_ntz"),
    *("decimal(10,0)", "decimal(12,2)", "decimal(20,0)", "decimal(38,10)"),
)
PROPERTIES = ("owned_by", "delta.logRetentionDuration", "delta.checkpointInterval")

primitives = st.sampled_from(ATOMS).map(Primitive)
comments = st.none() | st.sampled_from(["", "what it is", "it's \\ ü"])
defaults = st.none() | st.sampled_from(["1", "'x'", "CURRENT_DATE", "'{\"a\": [1]}'", '"it\'s"'])


def types(depth: int, *, nested_not_null: bool = True) -> st.SearchStrategy[DataType]:
    """``nested_not_null``: False keeps to what Spark SQL can say (no NOT NULL inside arrays and maps)."""
    if depth == 0:
        return primitives
    inner = types(depth - 1, nested_not_null=nested_not_null)
    loose = inner if nested_not_null else inner.map(_loosened)
    flags = st.booleans() if nested_not_null else st.just(True)
    structs = fields(depth - 1, columns=False, nested_not_null=nested_not_null).map(Struct)
    return st.one_of(primitives, structs, st.builds(Array, loose, flags), st.builds(Map, loose, loose, flags))


def _loosened(data_type: DataType) -> DataType:
    match data_type:
        case Struct(fields=inner):
            return Struct(tuple(replace(f, nullable=True, type=_loosened(f.type)) for f in inner))
        case Array(element=element):
            return Array(_loosened(element))
        case Map(key=key, value=value):
            return Map(_loosened(key), _loosened(value))
        case Primitive():
            return data_type


@st.composite
def fields(draw: st.DrawFn, depth: int, *, columns: bool, nested_not_null: bool = True) -> Fields:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    found = []
    for name in names:
        data_type = draw(types(depth, nested_not_null=nested_not_null))
        if columns and isinstance(data_type, Primitive) and data_type.name == "string":
            data_type = draw(st.sampled_from([data_type, Primitive("varchar(10)"), Primitive("varchar(20)")]))
        default = draw(defaults) if columns else None
        found.append(Field(name, data_type, draw(st.booleans()), default, draw(comments)))
    return tuple(found)


@st.composite
def declarations(draw: st.DrawFn, *, sql: bool = False) -> Declaration:
    """``sql``: only what a CREATE TABLE can say."""
    return _constrained(draw, Declaration(NAME, draw(fields(2, columns=True, nested_not_null=not sql))), sql=sql)


def _constrained(draw: st.DrawFn, declaration: Declaration, *, sql: bool = False) -> Declaration:
    """With checks, keys, partitioning or clustering, properties over the columns it has."""
    atomic = [f.name for f in declaration.fields if isinstance(f.type, Primitive) and f.type.name not in ("binary", "boolean")]
    columns = st.lists(st.sampled_from(atomic), max_size=2, unique=True).map(tuple) if atomic else st.just(())
    partitioned = draw(columns)
    if len(partitioned) == len(declaration.fields):
        partitioned = ()
    primary = draw(columns)
    unique, foreign = draw(columns), draw(columns)
    keys = [] if not unique else [Key(unique, draw(st.sampled_from([None, "u"])))]
    foreign_keys = [] if not foreign else [ForeignKey(foreign, NAME, foreign)]
    properties = draw(st.dictionaries(st.sampled_from(PROPERTIES), st.sampled_from(["1", "interval 30 days"])))
    required = tuple(replace(f, nullable=False) if f.name in primary else f for f in declaration.fields)
    return replace(
        declaration,
        fields=required if sql else declaration.fields,
        partitioned_by=partitioned,
        clustered_by=() if partitioned else draw(columns),
        checks=sorted_checks(_checks(draw, declaration)),
        primary_key=Key(primary, draw(st.sampled_from([None, "pk"]))) if primary else None,
        uniques=sorted_keys(keys),
        foreign_keys=sorted_foreign_keys(foreign_keys),
        properties=sorted_properties(properties.items()),
        comment=draw(comments),
    )


def _checks(draw: st.DrawFn, declaration: Declaration) -> list[Check]:
    """Compare with 1 only what is no struct: Spark compares none with a number, and a rename inside of one is refused there."""
    expressions = [f"{_bare(f.name)} IS NULL" for f in declaration.fields]
    for f in declaration.fields:
        if isinstance(f.type, Struct):
            expressions += [f"{_bare(f.name)}.{_bare(inner.name)} = 1" for inner in f.type.fields if isinstance(inner.type, Primitive)]
        if isinstance(f.type, Array) and isinstance(f.type.element, Struct):
            expressions += [
                f"{_bare(f.name)}[0].{_bare(inner.name)} = 1" for inner in f.type.element.fields if isinstance(inner.type, Primitive)
            ]
    chosen = draw(st.lists(st.sampled_from(expressions), max_size=2, unique=True))
    return [Check(f"check_{number}", text) for number, text in enumerate(chosen)]


def _bare(name: str) -> str:
    return name if may_stand_bare(name) else quote(name)


@dataclass(frozen=True)
class Evolved:
    old: Declaration
    new: Declaration
    renames: Mapping[ColumnPath, str]


@st.composite
def evolutions(draw: st.DrawFn) -> Evolved:
    """A declaration and another one that came from it by any mixture of changes at any depth, with the renames among them."""
    old = draw(declarations())
    renames: dict[ColumnPath, str] = {}
    evolved = Declaration(NAME, _evolve_fields(draw, old.fields, "", renames, columns=True))
    same_around = replace(evolved, comment=old.comment, properties=old.properties)
    return Evolved(old, draw(st.just(same_around) | _with_constraints(evolved)), renames)


@st.composite
def _with_constraints(draw: st.DrawFn, declaration: Declaration) -> Declaration:
    return _constrained(draw, declaration)


def _evolve_fields(draw: st.DrawFn, old: Fields, path: str, renames: dict[ColumnPath, str], *, columns: bool) -> Fields:
    kept: list[Field] = []
    free = list(NAMES)
    for f in old:
        fate = draw(st.sampled_from(["keep", "keep", "keep", "drop", "rename"]))
        if fate == "drop" or (fate == "keep" and f.name not in free):
            continue
        name = f.name if fate == "keep" else draw(st.sampled_from(free))
        free.remove(name)
        here = join(path, f.name)
        if name != f.name:
            renames[here] = name
        kept.append(_evolve_field(draw, replace(f, name=name), here, renames, columns=columns))
    wanted = draw(st.integers(min_value=0 if kept else 1, max_value=2))
    for name in draw(st.permutations(free))[:wanted]:
        added = draw(fields(1, columns=columns))[0]
        kept.append(replace(added, name=name))
    return tuple(draw(st.permutations(kept)) if draw(st.booleans()) else kept)


def _evolve_field(draw: st.DrawFn, field: Field, path: str, renames: dict[ColumnPath, str], *, columns: bool) -> Field:
    if draw(st.booleans()):
        return replace(field, type=_evolve_type(draw, field.type, path, renames, deep=True))
    return replace(
        field,
        type=_evolve_type(draw, field.type, path, renames, deep=False),
        nullable=draw(st.booleans()),
        default=draw(defaults) if columns else None,
        comment=draw(comments),
    )


def _evolve_type(draw: st.DrawFn, data_type: DataType, path: str, renames: dict[ColumnPath, str], *, deep: bool) -> DataType:
    flag: Callable[[bool], bool] = lambda old: old if deep else draw(st.booleans())  # noqa: E731
    match data_type:
        case Struct(fields=inner):
            return Struct(_evolve_fields(draw, inner, path, renames, columns=False))
        case Array(element=element, contains_null=nulls):
            return Array(_evolve_type(draw, element, f"{path}.element", renames, deep=deep), flag(nulls))
        case Map(key=key, value=value, value_contains_null=nulls):
            new_key = _evolve_type(draw, key, f"{path}.key", renames, deep=deep)
            return Map(new_key, _evolve_type(draw, value, f"{path}.value", renames, deep=deep), flag(nulls))
        case Primitive():
            return data_type if deep else draw(types(1))


def restated(declaration: Declaration) -> Declaration:
    """The same declaration with every order turned round and every comment another."""
    return replace(declaration, fields=_restated(declaration.fields), comment="another")


def _restated(old: Fields) -> Fields:
    return tuple(replace(f, type=_restated_type(f.type), comment=f"not {f.comment}") for f in reversed(old))


def _restated_type(data_type: DataType) -> DataType:
    match data_type:
        case Struct(fields=inner):
            return Struct(_restated(inner))
        case Array(element=element):
            return replace(data_type, element=_restated_type(element))
        case Map(key=key, value=value):
            return replace(data_type, key=_restated_type(key), value=_restated_type(value))
        case Primitive():
            return data_type
