"""Whatever happens in a command becomes one document and the right exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from io import StringIO

import pytest
import typer
from jsonschema import validate
from rich.console import Console
from typer.testing import CliRunner

from airflow_provider_schemamig.cli.options import JsonOption
from airflow_provider_schemamig.cli.output import Answer, Exit, answered, console, failure
from airflow_provider_schemamig.core.names import InvalidName
from airflow_provider_schemamig.exceptions import Conflict, Refused, SchemamigError

FIELDS = {
    "type": "object",
    "required": ["code", "message", "collection", "next", "retryable"],
    "additionalProperties": False,
    "properties": {
        "code": {"type": "string"},
        "message": {"type": "string"},
        "collection": {"type": ["string", "null"]},
        "next": {"type": "string"},
        "retryable": {"type": "boolean"},
    },
}
FAILURE = {
    "type": "object",
    "required": ["error", "refusals"],
    "additionalProperties": False,
    "properties": {"error": FIELDS, "refusals": {"type": "array", "items": FIELDS}},
}


class Beaten(Conflict):
    code = "beaten"
    message = "another process was first."
    next_action = "Try again."


def invalid(name: str, collection: str | None = None) -> InvalidName:
    return InvalidName(kind="column", name=name, rule="it has [red]brackets[/red] and :smile:", collection=collection)


def app_that(work: Callable[[], Answer]) -> typer.Typer:
    app = typer.Typer()

    @app.command()
    @answered
    def command(as_json: JsonOption = False) -> Answer:
        return work()

    return app


def raising(error: BaseException) -> Callable[[], Answer]:
    def work() -> Answer:
        raise error

    return work


CASES = [
    ("one refusal", invalid("a b", "flights"), Exit.REFUSED, "invalid_name", ["invalid_name"]),
    ("several", Refused(refusals=(invalid("a b"), invalid("c d"))), Exit.REFUSED, "refused", ["invalid_name", "invalid_name"]),
    ("conflict", Beaten(collection="flights"), Exit.CONFLICT, "beaten", []),
    ("ctrl-c", KeyboardInterrupt(), Exit.INTERRUPTED, "interrupted", []),
    ("a bug", KeyError("x"), Exit.REFUSED, "internal", []),
]


@pytest.mark.parametrize(("error", "code", "name", "refusals"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_failures_are_documents(error: BaseException, code: int, name: str, refusals: list[str]) -> None:
    result = CliRunner().invoke(app_that(raising(error)), ["--json"])
    document = json.loads(result.stdout)
    validate(document, FAILURE)
    assert result.exit_code == code
    assert document["error"]["code"] == name
    assert [refusal["code"] for refusal in document["refusals"]] == refusals
    assert document["error"]["retryable"] == (code in (Exit.CONFLICT, Exit.INTERRUPTED))


@pytest.mark.parametrize(("error", "code"), [case[1:3] for case in CASES], ids=[case[0] for case in CASES])
def test_failures_for_people_are_on_stderr(error: BaseException, code: int) -> None:
    result = CliRunner().invoke(app_that(raising(error)), [])
    assert result.exit_code == code
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert "next: " in result.stderr


@pytest.mark.parametrize("exit_code", [Exit.DONE, Exit.PENDING, Exit.REFUSED])
def test_an_answer_keeps_its_document_and_exit_code(exit_code: int) -> None:
    app = app_that(lambda: Answer({"a": [1, "é"]}, lambda to: to.print("for people [bold]x[/bold]"), exit_code))
    as_json, as_text = CliRunner().invoke(app, ["--json"]), CliRunner().invoke(app, [])
    assert json.loads(as_json.stdout) == {"a": [1, "é"]}
    assert as_text.stdout == "for people [bold]x[/bold]\n"
    assert as_json.exit_code == as_text.exit_code == exit_code


def test_a_bug_shows_its_traceback_only_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_that(raising(KeyError("x")))
    assert "Traceback" not in CliRunner().invoke(app, ["--json"]).stderr
    monkeypatch.setenv("SCHEMAMIG_DEBUG", "1")
    result = CliRunner().invoke(app, ["--json"])
    assert "Traceback" in result.stderr
    assert json.loads(result.stdout)["error"]["code"] == "internal"


def text_of(error: SchemamigError, width: int = 100) -> str:
    to = Console(file=StringIO(), width=width, markup=False, emoji=False, highlight=False)
    failure(error).show(to)
    file = to.file
    assert isinstance(file, StringIO)
    return file.getvalue()


def test_one_refusal_reads_like_this() -> None:
    assert text_of(invalid("a b", "flights")) == (
        "error invalid_name  flights\n"
        "  'a b' is not a valid column name: it has [red]brackets[/red] and :smile:.\n"
        "  next: Choose another column name.\n"
    )


def test_a_conflict_reads_like_this() -> None:
    assert text_of(Beaten()) == "conflict beaten\n  Another process was first.\n  next: Try again.\n"


def test_several_refusals_are_all_there_and_long_lines_keep_their_indent() -> None:
    assert text_of(Refused(refusals=(invalid("a b", "flights"), invalid("c d"))), width=60) == (
        "2 reasons against it:\n"
        "\n"
        "1. invalid_name  flights\n"
        "  'a b' is not a valid column name: it has\n"
        "  [red]brackets[/red] and :smile:.\n"
        "  next: Choose another column name.\n"
        "\n"
        "2. invalid_name\n"
        "  'c d' is not a valid column name: it has\n"
        "  [red]brackets[/red] and :smile:.\n"
        "  next: Choose another column name.\n"
    )


def test_a_bug_reads_like_this() -> None:
    result = CliRunner().invoke(app_that(raising(ValueError("first line\nsecond line"))), [])
    assert result.stderr == (
        "error internal\n"
        "  ValueError: first line. This is a bug in schemamig.\n"
        "  next: Run it again with SCHEMAMIG_DEBUG=1 in the environment and report the traceback it prints.\n"
    )


def test_no_colour_off_a_terminal_or_if_the_user_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert console().color_system is not None
    monkeypatch.setenv("NO_COLOR", "1")
    assert console().no_color
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.delenv("NO_COLOR")
    assert console(stderr=True).color_system is None


NOISY = """
import os, subprocess, typer
from airflow_provider_schemamig.cli.options import JsonOption
from airflow_provider_schemamig.cli.output import Answer, answered
app = typer.Typer()
@app.command()
@answered
def command(as_json: JsonOption = False) -> Answer:
    print("a library prints")
    os.write(1, b"native code prints\\n")
    subprocess.run(["echo", "a child prints"])
    return Answer({"ok": True}, lambda to: to.print("ok"))
app()
"""


@pytest.mark.parametrize(("arguments", "stdout"), [(["--json"], '{\n  "ok": true\n}\n'), ([], "ok\n")])
def test_stdout_holds_the_answer_alone(arguments: list[str], stdout: str) -> None:
    """Also against noise that does not go through Python: Spark's launcher, Ivy and native libraries print to descriptor 1."""
    result = subprocess.run([sys.executable, "-c", NOISY, *arguments], capture_output=True, text=True, check=True, env=dict(os.environ))
    assert result.stdout == stdout
    for noise in ("a library prints", "native code prints", "a child prints"):
        assert noise in result.stderr
