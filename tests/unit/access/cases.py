"""Every kind of change that handles meet, each as two releases; docs/handles.md says what becomes of whom."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """``name``: the change, as the page calls it. ``old``, ``new``: the columns of ``t``; ``rows``: what is in it before the upgrade."""

    name: str
    old: str
    new: str
    step: str = 'evolution("t")'
    rows: tuple[dict[str, object], ...] = ({"id": 1, "x": 1},)


CASES = (
    Case("column added", "id BIGINT", "id BIGINT, x INT", rows=({"id": 1},)),
    Case("field added in a struct", "s STRUCT<a: INT>", "s STRUCT<a: INT, x: INT>", rows=({"s": {"a": 1}},)),
    Case("column dropped", "id BIGINT, x INT", "id BIGINT", 'evolution("t", drop=["x"])'),
    Case("NOT NULL column dropped", "id BIGINT, x INT NOT NULL", "id BIGINT", 'evolution("t", drop=["x"])'),
    Case("field dropped in a struct", "s STRUCT<a: INT, x: INT>", "s STRUCT<a: INT>", 'evolution("t", drop=["s.x"])', ({"s": None},)),
    Case("column renamed", "id BIGINT, x INT", "id BIGINT, y INT", 'evolution("t", rename={"x": "y"})'),
    Case(
        "field renamed in a struct",
        "s STRUCT<a: INT, x: INT>",
        "s STRUCT<a: INT, y: INT>",
        'evolution("t", rename={"s.x": "y"})',
        ({"s": {"a": 1, "x": 2}},),
    ),
    Case("names swapped", "x INT, y INT", "x INT, y INT", 'evolution("t", rename={"x": "y", "y": "x"})', ({"x": 1, "y": 2},)),
    Case("type widened", "id BIGINT, x INT", "id BIGINT, x BIGINT"),
    Case("NOT NULL dropped", "id BIGINT, x INT NOT NULL", "id BIGINT, x INT"),
    Case("columns reordered", "id BIGINT, x INT", "x INT, id BIGINT", ""),
    Case(
        "column dropped, another takes its name",
        "id BIGINT, x INT, y INT",
        "id BIGINT, x INT",
        'evolution("t", rename={"y": "x"}, drop=["x"])',
    ),
    Case("types and names at once", "id INT NOT NULL, x INT", "y BIGINT, id BIGINT", 'evolution("t", rename={"x": "y"})'),
)
