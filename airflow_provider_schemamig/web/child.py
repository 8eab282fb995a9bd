"""The reading process of the page: ``python -m airflow_provider_schemamig.web.child``. Imports nothing of Airflow.

A request is a line on standard input, an answer a line on standard output; it ends when its input does. A document is made anew when the
ledger has a newer version, or when it is some seconds old: tables change without the ledger.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.exceptions import SchemamigError
from airflow_provider_schemamig.web.documents import DOCUMENTS, Document
from airflow_provider_schemamig.web.messages import MEMORY_LIMIT, ReadAnswer, ReadRequest
from airflow_provider_schemamig.web.verbs import VERBS

#: Requests that are worked on at once.
AT_ONCE = 8
_KEPT = 64


@dataclass
class _Made:
    """A document that was made, of which version of the ledger, and when."""

    ledger_version: int
    at: float
    text: str


@dataclass
class Child:
    """Answers requests. ``out``: where answers go, one line each."""

    out: BinaryIO
    _made: OrderedDict[str, _Made] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _open: int = 0

    def answer(self, request: ReadRequest) -> None:
        try:
            found = self._answer(request)
        except SchemamigError as error:
            found = ReadAnswer(request.number, error=error.to_json())
        except Exception as error:  # noqa: BLE001 - the viewer is told, and the next request is answered
            told = {"code": "failed", "message": f"{type(error).__name__}.", "next": "Run `schemamig status` for the whole error."}
            print(f"schemamig: {request.name} failed: {type(error).__name__}", file=sys.stderr)  # noqa: T201
            found = ReadAnswer(request.number, error={**told, "collection": None, "retryable": False})
        with self._lock:
            self.out.write(found.to_line())
            self.out.flush()
            self._open -= 1

    def accept(self, request: ReadRequest, threads: ThreadPoolExecutor) -> bool:
        """Begin to answer; False: it has grown too large, and this is the last one."""
        with self._lock:
            self._open += 1
        threads.submit(self.answer, request)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < MEMORY_LIMIT

    def _answer(self, request: ReadRequest) -> ReadAnswer:
        env = Environment.open(request.location, dict(request.options))
        if request.name in VERBS:
            done = VERBS[request.name](replace(env, waits=False, who=request.who), request.who or "", **request.arguments)
            return ReadAnswer(request.number, time.time(), json.dumps(done))
        made = self._document(env, DOCUMENTS[request.name], request)
        if request.known == made.at:
            return ReadAnswer(request.number, made.at, unchanged=True)
        return ReadAnswer(request.number, made.at, made.text)

    def _document(self, env: Environment, document: Document, request: ReadRequest) -> _Made:
        key = json.dumps([request.location, request.name, request.arguments], sort_keys=True)
        version = LedgerReader(env).state().version
        with self._lock:
            known = self._made.get(key)
        if known is not None and known.ledger_version == version and time.time() - known.at < document.seconds:
            return known
        text = json.dumps(document.make(env, **request.arguments))
        if known is not None and known.text == text:  # nothing to draw anew
            return _Made(version, known.at, text)
        made = _Made(version, time.time(), text)
        with self._lock:
            self._made[key] = made
            self._made.move_to_end(key)
            while len(self._made) > _KEPT:
                self._made.popitem(last=False)
        return made


def main(lines: BinaryIO, out: BinaryIO) -> None:
    child = Child(out)
    with ThreadPoolExecutor(AT_ONCE, "schemamig-read") as threads:
        for line in lines:
            if not child.accept(ReadRequest.from_line(line), threads):
                break


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
