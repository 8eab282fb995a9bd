"""The reading process of the page: ``python -m airflow_provider_schemamig.web.child``. Imports nothing of Airflow.

A request is a line on standard input, an answer a line on standard output; it ends when its input does. A document is made anew when the
ledger has a newer version, or when it is some seconds old: tables change without the ledger.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.exceptions import SchemamigError
from airflow_provider_schemamig.web.documents import DOCUMENTS, Document
from airflow_provider_schemamig.web.messages import LEAVES_AT, ReadAnswer, ReadRequest, store_key
from airflow_provider_schemamig.web.verbs import VERBS

#: Bytes of documents that are kept.
_KEPT_BYTES = 24 * 1024 * 1024
#: So long what is under way may take when nobody asks any more: a store that does not answer keeps no process alive.
_LAST_SECONDS = 5.0
#: What takes long to read is read less often: this part of the time at most is spent on it.
_SHARE = 5


@dataclass
class _Made:
    """A document of one version of the ledger, the same since ``at``. It was read last at ``read``, and holds for ``seconds``."""

    ledger_version: int
    at: float
    read: float
    seconds: float
    text: str


@dataclass
class Child:
    """Answers requests, each in a thread of its own: who asks bounds them by environment. ``out``: where answers go, one line each."""

    out: BinaryIO
    _made: OrderedDict[str, _Made] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _idle: threading.Condition = field(default_factory=threading.Condition)
    _open: int = 0
    _leaves: bool = False

    def accept(self, request: ReadRequest) -> None:
        """Begin to answer."""
        with self._idle:
            self._open += 1
        threading.Thread(target=self.answer, args=(request,), name="schemamig-read", daemon=True).start()

    def answer(self, request: ReadRequest) -> None:
        try:
            found = self._answer(request)
        except SchemamigError as error:
            found = ReadAnswer(request.number, error=error.to_json())
        except Exception as error:  # noqa: BLE001 - the viewer is told, and the next request is answered
            told = {"code": "failed", "message": f"{type(error).__name__}.", "next": "Run `schemamig status` for the whole error."}
            print(f"schemamig: {request.name} failed: {type(error).__name__}", file=sys.stderr)  # noqa: T201
            found = ReadAnswer(request.number, error={**told, "collection": None, "retryable": False})
        self._say(found)
        with self._idle:
            self._open -= 1
            self._idle.notify_all()
        if not self._leaves and resident_bytes() > LEAVES_AT:
            self._leaves = True
            self._say(ReadAnswer(0, leaves=True))

    def finish(self) -> None:
        """Let what is under way come to its end, for some seconds."""
        with self._idle:
            self._idle.wait_for(lambda: self._open == 0, _LAST_SECONDS)

    def _say(self, answer: ReadAnswer) -> None:
        with self._lock:
            self.out.write(answer.to_line())
            self.out.flush()

    def _answer(self, request: ReadRequest) -> ReadAnswer:
        env = Environment.open(request.location, dict(request.options))
        if request.name in VERBS:
            done = VERBS[request.name](replace(env, waits=False, who=request.who), request.who or "", **request.arguments)
            return ReadAnswer(request.number, time.time(), time.time(), json.dumps(done))
        made = self._document(env, DOCUMENTS[request.name], request)
        if request.known == made.at:
            return ReadAnswer(request.number, made.at, made.read, unchanged=True)
        return ReadAnswer(request.number, made.at, made.read, made.text)

    def _document(self, env: Environment, document: Document, request: ReadRequest) -> _Made:
        key = _key(request)
        version, began = LedgerReader(env).state().version, time.time()
        with self._lock:
            known = self._made.get(key)
        if known is not None and known.ledger_version == version and began - known.read < known.seconds:
            return known
        text = json.dumps(document.make(env, **request.arguments))
        at = known.at if known is not None and known.text == text else began  # the same: nothing to draw anew
        made = _Made(version, at, began, max(document.seconds, _SHARE * (time.time() - began)), text)
        with self._lock:
            self._made[key] = made
            self._made.move_to_end(key)
            while len(self._made) > 1 and sum(len(item.text) for item in self._made.values()) > _KEPT_BYTES:
                self._made.popitem(last=False)
        return made


def _key(request: ReadRequest) -> str:
    """Return what a document is kept under."""
    return json.dumps([store_key(request.location, request.options), request.name, request.arguments], sort_keys=True)


def resident_bytes() -> int:
    """Return the memory of this process. Not its ``ru_maxrss``: that begins with the size of who started it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):  # no Linux
        return 0


def main(lines: BinaryIO, out: BinaryIO) -> None:
    child = Child(out)
    for line in lines:
        child.accept(ReadRequest.from_line(line))
    child.finish()


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    main(sys.stdin.buffer, answers)
    os._exit(0)  # threads that wait for a store would hold it
