"""How the text of options becomes values."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import typer

from airflow_provider_schemamig.cli.options import local_path, parse_hold


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", timedelta()),
        ("90", timedelta(seconds=90)),
        ("30m", timedelta(minutes=30)),
        ("24h", timedelta(hours=24)),
        ("7d", timedelta(days=7)),
        (" 3650d ", timedelta(days=3650)),
    ],
)
def test_a_hold(text: str, value: timedelta) -> None:
    assert parse_hold(text) == value


@pytest.mark.parametrize("text", ["", "h", "1.5h", "-1", "1h30m", "1w", "3651d", "٣d"])
def test_no_hold(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_hold(text)


def test_a_folder_is_a_path_or_a_file_uri(tmp_path: Path) -> None:
    assert local_path("releases/a") == Path("releases/a")
    assert local_path(f"file://{tmp_path}") == tmp_path
    with pytest.raises(typer.BadParameter):
        local_path("s3://bucket/releases")
