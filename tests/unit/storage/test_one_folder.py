"""A location is one folder, whoever opens it: what our stores and delta-rs would take for two is refused before anything is written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.storage import InvalidLocation, Location, StorageOptions, open_store

#: What an Arrow table of one row is made of.
ROWS = {"id": [7]}
#: Every character of ASCII that may stand in a file's name, and some that look like others, are made of two, or cannot be seen.
CHARACTERS = [chr(code) for code in range(1, 128) if chr(code) not in "/" and not chr(code).isalnum()] + [
    *(
        "ü",
        "u\u0308",
        "\u0085",
        "\u00a0",
        "\u00ad",
        "\u200b",
        "\u2028",
        "\u3000",
        "\ufeff",
        "\U0001f600",
        "\uff0f",
        "\uff0e",
        "\uff05",
        "\udcff",
    )
]
FORMS = ("{}a", "a{}b", "b{}", "a{}/t", "{}a/t", "{}/t", "c{0}{0}c", "c{0}20c", "c{0}2Fc", "{0}2e{0}2e")
REFUSED = [*range(1, 32), 127, *map(ord, "%*?#[]\\^`{|}"), 0xDCFF]


def spellings(character: str) -> Iterator[str]:
    """Names with it that a file system has."""
    return (name for form in FORMS if (name := form.format(character)).split("/")[0] not in (".", ".."))


@pytest.mark.some(16)
@pytest.mark.parametrize("character", CHARACTERS, ids=ascii)
def test_delta_rs_opens_the_folder_that_a_location_is(tmp_path: Path, character: str) -> None:
    for number, name in enumerate(spellings(character)):
        top = tmp_path / str(number) / "in" / "it"
        try:
            location = Location.parse(f"{top}/{name}")
        except InvalidLocation:
            assert character.isspace() or ord(character) in REFUSED, name
            continue
        assert len(character) > 1 or ord(character) not in REFUSED, name
        uri = location.child("_schemamig", "ledger").uri
        modes: tuple[Literal["error", "append"], ...] = ("error", "append")
        for mode in modes:
            write_deltalake(uri, pa.table(ROWS), mode=mode)
        table = DeltaTable(uri)
        table.optimize.compact()
        table.create_checkpoint()
        assert table.to_pyarrow_table().column("id").to_pylist() == [7, 7]
        assert [folder for folder, folders, _ in os.walk(tmp_path / str(number)) if "_delta_log" in folders] == [
            f"{top}/{name}/_schemamig/ledger"
        ]
        store = open_store(location, StorageOptions())
        assert store.names("_schemamig/ledger/_delta_log")[-1] == "_last_checkpoint"
        assert store.folders("") == ["_schemamig"]


@pytest.mark.parametrize(
    "root", ["/data", "file:///data", "s3://bucket", "s3a://bucket", "gs://bucket", "abfss://c@a.dfs.core.windows.net", "az://c"]
)
@pytest.mark.parametrize("name", ["my%20table", "%2e%2e", "100%", "back\\slash", "x*", "[x]", "{a,b}", "a^b", "a|b", "no\udcffunicode"])
def test_one_folder_what_others_read_in_another_way_is_refused(root: str, name: str) -> None:
    for path in (f"{root}/{name}", f"{root}/{name}/below", f"{root}/above/{name}/"):
        with pytest.raises(InvalidLocation, match="is not allowed") as caught:
            Location.parse(path)
        str(caught.value).encode(errors="surrogateescape")
        with pytest.raises(InvalidLocation):
            Environment.open("/lake").table_store(path)
    with pytest.raises(InvalidLocation):
        Location.parse(root).child(name)


def test_of_a_percent_sign_is_said_how_a_path_is_given() -> None:
    with pytest.raises(InvalidLocation, match="a path is given as it is, never with %20"):
        Location.parse("file:///data/my%20table")


def test_a_relative_path_is_looked_at_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a%20b"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with pytest.raises(InvalidLocation, match="a%20b/lake"):
        Location.parse("lake")


def test_a_blank_at_the_end_does_not_hide_behind_a_slash() -> None:
    with pytest.raises(InvalidLocation, match="ends with a blank"):
        Location.parse("/data/lake /")


def test_a_folder_of_files_may_have_any_name(tmp_path: Path) -> None:
    """Such as a release's: CI makes checkouts in folders like ``repo%2Fbranch``, and only we open them."""
    folder = tmp_path / "repo%2Fbranch [1]"
    assert Location.of_files(folder).local_path == folder
