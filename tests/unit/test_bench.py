"""The bench's own figures: a peak is the child's, several rounds are told with their spread."""

from __future__ import annotations

import sys

import pytest

from bench.tools.measure import run
from bench.tools.table import Row, cell, texts


def test_the_peak_of_a_child_is_its_own() -> None:
    ballast = bytearray(b"x" * 300_000_000)
    small, large = (run([sys.executable, "-S", "-c", f"x = b'x' * {size}"]).peak_mib for size in (1, 100_000_000))
    assert ballast[0] == ord("x")
    assert small < 50, "the memory of who measures is no part of it"
    assert large - small == pytest.approx(95, abs=5)


def test_a_child_that_fails_is_no_figure() -> None:
    with pytest.raises(RuntimeError, match=r"exited \['3'\]:\n\ntoo bad"):
        run([sys.executable, "-c", "import sys; print('too bad', file=sys.stderr); sys.exit(3)"])
    assert run([sys.executable, "-c", "raise SystemExit(3)"], expect=(3,)).output == ""


def test_several_rounds_are_told_by_their_median_and_spread() -> None:
    rounds = [Row("copy", cell("{:.1f} s, {:.0f} MiB", seconds, 80), cell("theirs"), goal="1 s") for seconds in (3.04, 1.0, 2.0)]
    assert texts(rounds) == ("copy", "2.0 (1.0-3.0) s, 80 MiB", "theirs", "", "1 s")
    assert texts([Row("x", cell("yes")), Row("x", cell("no")), Row("x", cell("yes"))])[1] == "yes or no"
