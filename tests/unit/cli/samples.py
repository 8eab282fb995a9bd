"""A small data product with two releases, and what one call of the command line gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMA_1 = """\
CREATE TABLE flights (flight_id BIGINT NOT NULL, origin STRING, distance INT, hour INT);
CREATE TABLE planes (tailnum STRING, year INT);
"""
#: An add, a rename, a widening, a drop and a new collection.
SCHEMA_2 = """\
CREATE TABLE flights (flight_id BIGINT NOT NULL, airport STRING, distance BIGINT, gust DOUBLE);
CREATE TABLE planes (tailnum STRING, year INT);
CREATE TABLE airlines (carrier STRING, name STRING);
"""
STEPS_2 = 'evolution("flights", rename={"origin": "airport"}, drop=["hour"])'

_SCHEMAS = json.loads((Path(__file__).parent / "schemas.json").read_text())


def conforms(document: Any, name: str) -> None:
    """Fails unless the document has the shape that ``schemas.json`` gives for the command."""
    Draft202012Validator({**_SCHEMAS, "$ref": f"#/$defs/{name}"}).validate(document)


@dataclass(frozen=True)
class Ran:
    exit_code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        """Stdout as the one JSON document it must be."""
        return json.loads(self.stdout)


Run = Callable[..., Ran]


def refused(run: Run, *arguments: object, code: str, collection: str | None = None, exit_code: int = 1) -> dict[str, Any]:
    """Run it with and without --json; the one error of that code, which may be among several."""
    ran = run(*arguments, "--json")
    assert ran.exit_code == exit_code, ran.stdout + ran.stderr
    document = ran.document
    conforms({name: document[name] for name in ("error", "refusals")}, "failure")
    found = [document["error"], *document["refusals"]]
    error = next((item for item in found if item["code"] == code), None)
    assert error is not None, found
    assert error["collection"] == collection
    assert error["next"]
    assert "internal" not in [item["code"] for item in found]
    shown = run(*arguments)
    assert shown.exit_code == exit_code
    assert code in shown.stdout + shown.stderr
    assert "Traceback" not in shown.stderr
    return dict(error)
