"""What anybody wrote into a table's metadata is shown on a terminal, and gives it no orders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from airflow_provider_schemamig.cli.main import app
from airflow_provider_schemamig.exceptions import Refusal, Refused
from airflow_provider_schemamig.visible import visible
from tests.support.tables.adopting import Site, alter, field

TEXT = "id > 0 AND 'a' <> '\x1b[2J\x1b]0;pwned\x07 \n[2026-11-22] INFO - generation 9 approved \u202eby root'"


def test_control_characters_are_shown_and_text_stays() -> None:
    assert visible("a\x1b[2Jb\r\n\x7f\x9b\u202e") == "a␛[2Jb␍␊␡\ufffd\ufffd"
    assert visible("a\nb\x07", lines=True) == "a\nb␇"
    assert visible("größer → 日本 😀") == "größer → 日本 😀"


def test_an_error_is_one_line_but_for_several() -> None:
    class Foreign(Refusal):
        code = "foreign"

        @property
        def message(self) -> str:
            return TEXT

    assert len(str(Foreign()).splitlines()) == 1
    assert "\x1b" not in str(Foreign())
    several = str(Refused(refusals=(Foreign(), Foreign())))
    assert "\x1b" not in several and [line[:3] for line in several.splitlines()[1:3]] == ["  -", "  -"]


@pytest.mark.parametrize("command", [["status"], ["plan", "--release", "{release}"], ["history"]])
def test_metadata_gives_a_terminal_no_orders(tmp_path: Path, command: list[str]) -> None:
    site = Site(tmp_path)
    table = site.by_hand("t", [field("id", "long")])
    site.adopt(t=table)
    alter(table, [field("id", "long"), field("x\x1b[31m")], delta__constraints__zz=TEXT)
    arguments = [part.replace("{release}", str(site.release)) for part in command]
    result = CliRunner().invoke(app, [*arguments, "--env", str(site.folder / "lake")])
    assert not {"\x1b", "\x07", "\u202e"} & set(result.output)
    assert not any(line.startswith("[2026") for line in result.output.splitlines())


def test_a_panic_is_a_document(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class PanicException(BaseException):
        pass

    def panic(*_: object) -> None:
        raise PanicException("called unwrap on http://minio:hunter2secret@host")

    monkeypatch.setattr("airflow_provider_schemamig.cli.commands.status.open_environment", panic)
    result = CliRunner().invoke(app, ["status", "--env", str(tmp_path), "--json"])
    document = json.loads(result.stdout)
    assert (result.exit_code, document["error"]["code"]) == (1, "internal")
    assert "hunter2" not in result.stdout


def test_a_malformed_endpoint_is_a_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "ht tp://x")
    result = CliRunner().invoke(app, ["status", "--env", "s3://bucket/root", "--json"])
    assert (result.exit_code, json.loads(result.stdout)["error"]["code"]) == (1, "invalid_storage_option")
