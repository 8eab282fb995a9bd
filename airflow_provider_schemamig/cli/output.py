"""The answer of a command, and the one place that prints it.

A command is a function that returns an ``Answer``; ``answered`` turns it into one Typer can run. Whatever happens inside becomes an
answer too: a refusal, a conflict, Ctrl-C, a bug. So ``--json`` gives exactly one document for every exit code but 2 (usage), which is
Typer's own.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ParamSpec

import typer

from airflow_provider_schemamig.cli.given import giving
from airflow_provider_schemamig.cli.spark_options import with_settings, with_spark_options
from airflow_provider_schemamig.cli.streams import filtered_stderr
from airflow_provider_schemamig.exceptions import Refusal, SchemamigError, refusals_of

if TYPE_CHECKING:
    from rich.console import Console

P = ParamSpec("P")


class Exit(IntEnum):
    """The exit codes, a contract with the programs that call us."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    PENDING = 3
    CONFLICT = 75
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Answer:
    """``document`` is for programs (``--json``), ``show`` prints the same for people; a failure's text goes to stderr."""

    document: Mapping[str, Any]
    show: Callable[[Console], None]
    exit_code: int = Exit.DONE
    failed: bool = False


def answered(function: Callable[P, Answer]) -> Callable[P, None]:
    """Make a Typer command of a function that returns an ``Answer`` and has the parameter ``as_json``."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with filtered_stderr(), _stdout_kept_for_the_answer():
            answer = _attempt(lambda: with_settings(function)(*args, **kwargs))
        with giving(kwargs):
            code = _give(answer, as_json=bool(kwargs["as_json"]))
        raise typer.Exit(code)

    return with_spark_options(run)


def console(*, stderr: bool = False) -> Console:
    """Return a console with colours and the terminal's width on a terminal (NO_COLOR is respected), else plain text of 120 columns."""
    from airflow_provider_schemamig.cli.console import PlainConsole  # Rich costs 50 ms, and --json never needs it

    # Names, SQL and messages hold brackets and colons: nothing in them may be read as markup.
    made = PlainConsole(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=False)
    if not made.is_terminal:
        made.width = 120
    return made


def failure_document(error: SchemamigError) -> dict[str, Any]:
    """Return ``{"error": {...}, "refusals": [...]}``: every refusal has the same fields as the error."""
    return {"error": error.to_json(), "refusals": [refusal.to_json() for refusal in refusals_of(error)]}


def failure(error: SchemamigError) -> Answer:
    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.common import show_error  # needs Rich

        show_error(to, error)

    code = Exit.CONFLICT if error.retryable else Exit.REFUSED
    return Answer(failure_document(error), show, code, failed=True)


class InternalError(SchemamigError):
    """An exception nobody meant to raise: a bug of ours, said in one line."""

    code = "internal"
    next_action = "Run it again with SCHEMAMIG_DEBUG=1 in the environment and report the traceback it prints."
    kind: str
    text: str

    @property
    def message(self) -> str:
        detail = f": {self.text.splitlines()[0]}" if self.text.strip() else ""
        return f"{self.kind}{detail}. This is a bug in schemamig."


class AnswerNotWritten(Refusal):
    code = "answer_not_written"
    message = "stdout cannot be written: {reason}."
    next_action = "What the command did stands: `schemamig status` shows it. Send its answer to another place."
    reason: str


class Interrupted(SchemamigError):
    """Ctrl-C, or Ctrl-D at a question. Every command may be cut anywhere, so saying so is all there is to do."""

    code = "interrupted"
    retryable = True
    message = "Stopped by {key}; nothing acknowledged is lost."
    next_action = (
        "Run the same command again: it goes on from where it stopped. Before a `rollback` without --generation look at `status`: "
        "it may have been through."
    )
    key: str


def _attempt(run: Callable[[], Answer]) -> Answer:
    try:
        return run()
    except SchemamigError as error:
        return failure(error)
    except KeyboardInterrupt as stopped:
        interrupted = failure(Interrupted(key=str(stopped) or "Ctrl-C"))
        return Answer(interrupted.document, interrupted.show, Exit.INTERRUPTED, failed=True)
    except (typer.Exit, typer.BadParameter):
        raise  # usage: Typer prints it and exits with 2
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - the last border: whatever comes (panics of Rust are no Exception) becomes a document
        return _internal(error)


def _internal(error: BaseException) -> Answer:
    """Report an unexpected error without its traceback (SCHEMAMIG_DEBUG prints it), and with secrets blanked: a library's text may quote a
    signed request."""
    from airflow_provider_schemamig.core.storage import blank

    if os.environ.get("SCHEMAMIG_DEBUG"):
        traceback.print_exc(file=sys.stderr)
    return failure(InternalError(kind=type(error).__name__, text=blank(str(error))))


def _give(answer: Answer, *, as_json: bool) -> int:
    if as_json:
        sys.stdout.write(json.dumps(answer.document, indent=2) + "\n")
        sys.stdout.flush()
        return answer.exit_code
    try:
        answer.show(console(stderr=answer.failed))
    except SchemamigError as error:  # ``status --watch`` looks again while it shows
        return _give(failure(error), as_json=False)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return answer.exit_code


@contextmanager
def _stdout_kept_for_the_answer() -> Iterator[None]:
    """Send to stderr what libraries and JVMs print to file descriptor 1 while a command works: stdout holds the answer alone."""
    try:
        stdout, stderr = sys.stdout.fileno(), sys.stderr.fileno()
    except OSError:  # not real files (a test's buffers): nothing that bypasses Python can write to them
        yield
        return
    sys.stdout.flush()
    kept = os.dup(stdout)
    os.dup2(stderr, stdout)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, stdout)
        os.close(kept)


def facts(document: Mapping[str, Any]) -> Answer:
    """Return an answer of a few values by name."""

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.common import show_facts

        show_facts(to, document)

    return Answer(document, show)


def show_files(to: Console, files: Sequence[str], title: str = "") -> None:
    if title:
        to.print(title, style="bold")
    for file in files:
        to.print(f"  {file}")


def show_changes(to: Console, document: Mapping[str, Any]) -> None:
    for change in document["changes"]:
        to.print(f"  {document['collection']}: {change['text']}")
