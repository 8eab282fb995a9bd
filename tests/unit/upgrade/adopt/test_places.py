"""Where tables lie, asked of an index as of a look at every one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_schemamig.core.storage import Location, place_of
from airflow_provider_schemamig.core.upgrade.adopt.places import Places

#: Names of which one begins like another, and characters that sort before and after a slash.
NAMES = st.lists(st.sampled_from(["a", "ab", "a-b", "a b", "b"]), min_size=1, max_size=4).map("/".join)


@given(st.lists(NAMES, max_size=8, unique=True), NAMES)
@pytest.mark.parametrize("root", ["/nowhere", "s3://bucket"])
def test_places_of_tables_around_and_inside_of_one_another(root: str, folders: list[str], asked: str) -> None:
    places = Places((folder, Location.parse(f"{root}/{folder}")) for folder in folders)
    place = place_of(Location.parse(f"{root}/{asked}"))
    around = [folder for folder in folders if asked.startswith(f"{folder}/")]
    inside = [folder for folder in folders if folder.startswith(f"{asked}/")]
    assert sorted(places.owners) == sorted(folders)
    assert places.at(place) == (asked if asked in folders else None)
    assert places.around(place) == max(around, key=len, default=None)
    assert (places.inside(place) in inside) if inside else (places.inside(place) is None)


def test_two_spellings_are_one_place(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    places = Places([("t", Location.parse(f"{tmp_path}/link/t"))])
    assert places.at(place_of(Location.parse(f"file://{tmp_path}/real/t"))) == "t"
    assert places.at(place_of(Location.parse(f"{tmp_path}/real/other"))) is None
    assert Places([("t", Location.parse("s3a://bucket/t"))]).at(place_of(Location.parse("s3://bucket/t"))) == "t"
