"""Steps are values; arguments that make no sense are refused at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_schemamig import evolution, removal, replacement, rewrite
from airflow_provider_schemamig.core.names import CollectionName, InvalidName
from airflow_provider_schemamig.core.release.steps import Evolution, InvalidStep, Replacement, Rewrite, Step
from airflow_provider_schemamig.exceptions import Refusal


def test_steps_are_equal_and_hashable_values() -> None:
    step = evolution("flights", rename={"b": "c", "a": "d"}, drop=["hour", "origin.code"], renamed_from="legs")
    again = evolution("flights", rename={"a": "d", "b": "c"}, drop=("origin.code", "hour"), renamed_from="legs")
    assert step == again
    assert len({step, again}) == 1
    assert isinstance(step, Evolution)
    assert step.renames == {"a": "d", "b": "c"}


def test_steps_defaults() -> None:
    assert evolution("flights") == Evolution(evolution("flights").collection, (), (), None)
    found = replacement("stats")
    assert isinstance(found, Replacement)
    assert (found.fill, found.snapshot) == (None, False)
    assert rewrite("f", up="SELECT 1") == Rewrite(CollectionName("f"), "SELECT 1", None, "same", ())
    assert rewrite("f", up="SELECT 1", lookups=["h", "g"]) == rewrite("f", up="SELECT 1", lookups=("g", "h"))


@pytest.mark.parametrize(
    "make, kind, says",
    [
        (lambda: evolution("Flights"), InvalidName, "Flights"),
        (lambda: evolution("../x"), InvalidName, "../x"),
        (lambda: removal("schemamig_x"), InvalidName, "schemamig"),
        (lambda: evolution("f", rename={"a b": "c"}), InvalidName, "a b"),
        (lambda: evolution("f", rename={"a": "x.b"}), InvalidStep, "new last name only"),
        (lambda: evolution("f", rename={"a": "a"}), InvalidStep, "renamed to itself"),
        (lambda: evolution("f", rename={"s.a": "a"}), InvalidStep, "renamed to itself"),
        (lambda: evolution("f", rename={"a": "c", "b": "c"}), InvalidStep, "named twice"),
        (lambda: evolution("f", drop=["a", "a"]), InvalidStep, "named twice"),
        (lambda: evolution("f", rename={"a": "b"}, drop=["a"]), InvalidStep, "renamed and dropped"),
        (lambda: evolution("f", rename={"s.a": "b"}, drop=["s"]), InvalidStep, "renamed and dropped"),
        (lambda: evolution("f", drop=["s."]), InvalidName, "column"),
        (lambda: evolution("f", drop="hour"), InvalidStep, "list of column paths"),
        (lambda: evolution("f", rename=["a"]), InvalidStep, "maps old column paths"),  # type: ignore[arg-type]
        (lambda: evolution("f", renamed_from="f"), InvalidStep, "itself"),
        (lambda: removal(3), InvalidStep, "named by a string"),  # type: ignore[arg-type]
        (lambda: rewrite("f", up=" "), InvalidStep, "up is a query"),
        (lambda: rewrite("f", up="SELECT 1", cardinality="some"), InvalidStep, 'cardinality is "same" or "any"'),
        (lambda: rewrite("f", up="SELECT 1", cardinality=None), InvalidStep, "not None"),  # type: ignore[arg-type]
        (lambda: rewrite("f", up="SELECT 1", cardinality=[]), InvalidStep, "not []"),  # type: ignore[arg-type]
        (lambda: rewrite("f", up="SELECT 1", lookups="g"), InvalidStep, "list of collections"),
        (lambda: rewrite("f", up="SELECT 1", lookups=[3]), InvalidStep, "list of collections"),  # type: ignore[list-item]
        (lambda: rewrite("f", up="SELECT 1", lookups=["f"]), InvalidStep, "the collection itself"),
        (lambda: rewrite("f", up="SELECT 1", lookups=["g", "g"]), InvalidStep, "twice"),
        (lambda: rewrite("f", up="SELECT 1", lookups=["G"]), InvalidName, "G"),
        (lambda: replacement("f", fill=3), InvalidStep, "fill is a query"),  # type: ignore[arg-type]
        (lambda: replacement("f", snapshot=True), InvalidStep, "there is no fill"),
        (lambda: replacement("f", fill="SELECT 1", snapshot="yes"), InvalidStep, "True or False"),  # type: ignore[arg-type]
    ],
)
def test_steps_refused(make: Callable[[], Step], kind: type[Refusal], says: str) -> None:
    with pytest.raises(kind) as refused:
        make()
    assert says in refused.value.message
    assert refused.value.next_action


def test_two_fields_may_get_one_name_in_two_structs() -> None:
    found = evolution("f", rename={"a.x": "y", "b.x": "y", "x": "y"})
    assert len(found.rename) == 3


@pytest.mark.parametrize("heavy", ["sqlglot", "pendulum", "pyspark", "deltalake", "pyarrow", "obstore", "airflow"])
def test_importing_the_four_names_is_cheap(heavy: str) -> None:
    code = f"import sys\nfrom airflow_provider_schemamig import evolution\nsys.exit({heavy!r} in sys.modules)"
    arguments: list[Any] = [sys.executable, "-c", code]
    assert subprocess.run(arguments, check=False).returncode == 0
