"""Fields of structs are found by name at any depth; those with other names go by position, unless a name could be either."""

from __future__ import annotations

import pytest
from pyspark.sql.types import ArrayType, DataType, IntegerType, LongType, MapType, StringType, StructField, StructType

from airflow_provider_schemamig.core.spark.errors import QueryRefused
from airflow_provider_schemamig.core.spark.field_order import in_order


def struct(*names: str, **nested: DataType) -> StructType:
    return StructType([StructField(name, nested.get(name, IntegerType())) for name in names])


AB, BA = struct("a", "b"), struct("b", "a")
TURNED = "IF({0} IS NULL, NULL, named_struct('b', {0}.`b`, 'a', {0}.`a`))"


@pytest.mark.parametrize(
    ("given", "wanted", "expected"),
    [
        pytest.param(IntegerType(), LongType(), "`v`", id="no struct"),
        pytest.param(AB, AB, "`v`", id="the same order"),
        pytest.param(AB, StructType([StructField("a", LongType()), StructField("b", StringType())]), "`v`", id="other types"),
        pytest.param(AB, struct("A", "B"), "`v`", id="another case"),
        pytest.param(AB, BA, TURNED.format("`v`"), id="another order"),
        pytest.param(AB, struct("B", "A"), TURNED.format("`v`"), id="another order and case"),
        pytest.param(ArrayType(AB), ArrayType(BA), f"transform(`v`, x0 -> {TURNED.format('x0')})", id="in an array"),
        pytest.param(
            ArrayType(ArrayType(AB)),
            ArrayType(ArrayType(BA)),
            f"transform(`v`, x0 -> transform(x0, x1 -> {TURNED.format('x1')}))",
            id="in an array of arrays",
        ),
        pytest.param(
            MapType(AB, AB),
            MapType(BA, BA),
            f"transform_values(transform_keys(`v`, (k0, x0) -> {TURNED.format('k0')}), (k0, x0) -> {TURNED.format('x0')})",
            id="in a map",
        ),
        pytest.param(
            struct("s", s=AB),
            struct("s", s=BA),
            f"IF(`v` IS NULL, NULL, named_struct('s', {TURNED.format('`v`.`s`')}))",
            id="in a struct",
        ),
        pytest.param(AB, struct("x", "y"), "`v`", id="other names"),
        pytest.param(AB, struct("x", "b"), "`v`", id="one name is another"),
        pytest.param(
            struct("s", "b", s=AB),
            struct("x", "b", x=BA),
            f"IF(`v` IS NULL, NULL, named_struct('s', {TURNED.format('`v`.`s`')}, 'b', `v`.`b`))",
            id="another name above another order",
        ),
        pytest.param(AB, struct("a", "b", "c"), "`v`", id="too few"),
        pytest.param(AB, struct("a"), "`v`", id="too many"),
    ],
)
def test_fields_are_put_in_the_order_of_their_names(given: DataType, wanted: DataType, expected: str) -> None:
    assert in_order("`v`", given, wanted, "v") == expected


@pytest.mark.parametrize("wanted", [struct("b", "c"), struct("c", "a"), struct("c", "a", "b")])
def test_a_name_in_another_position_among_other_names_is_refused(wanted: DataType) -> None:
    with pytest.raises(QueryRefused, match=r"s\.element has the fields a, b in the query and .* could be either of two"):
        in_order("`s`", ArrayType(AB), ArrayType(wanted), "s")
