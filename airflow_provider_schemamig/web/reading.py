"""Reading environments for the api-server: one child process does it, started when somebody looks and ended when nobody does.

What was read is kept for all viewers. A look never waits long: it shows what is known, says as of when, and has it read anew meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from airflow_provider_schemamig.web.messages import ReadAnswer, ReadRequest, store_key
from airflow_provider_schemamig.web.places import Place
from airflow_provider_schemamig.web.process import ReadingProcess

#: A document that is younger is shown as it is.
FRESH_SECONDS = 2.0
#: So long a look waits for the newest document, then it shows what is known.
WAIT_SECONDS = 0.12
#: Older than this, what is shown says that it is stale.
STALE_SECONDS = 15.0
#: So long an answer may take before what is older than that says so: the first look after a while finds old documents.
READING_SECONDS = 3.0
#: After so long without an answer an environment counts as out of reach.
DEADLINE_SECONDS = 30.0
#: So long after the last look the child is ended.
IDLE_SECONDS = 60.0
#: Bytes, and number, of documents that are kept.
_KEPT_BYTES, _KEPT = 8 * 1024 * 1024, 1000
#: Requests under way for one environment. One that is out of reach does not hold the others up: of one that does not answer at once no more
#: is asked meanwhile.
_AT_ONCE, _SLOW_SECONDS = 3, 2.0
_PAUSE_SECONDS = 0.05

UNREACHABLE = {
    "code": "unreachable",
    "message": f"the environment did not answer within {DEADLINE_SECONDS:.0f} s.",
    "next": "See whether its store can be reached from the api-server.",
    "collection": None,
    "retryable": True,
}
ENDED = {**UNREACHABLE, "code": "reader_ended", "message": "the process that reads environments ended.", "next": "Look again."}

#: The store (``store_key``), the document and its arguments.
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Look:
    """What is known of a document: ``text`` (JSON), as of when, the error of the last look; ``is_stale``: nobody should rely on it;
    ``is_reading``: it is old, and has just been asked for."""

    text: str | None = None
    as_of: str | None = None
    error: Mapping[str, Any] | None = None
    is_stale: bool = False
    is_reading: bool = False
    made: float = 0.0

    @property
    def document(self) -> Any:
        return None if self.text is None else json.loads(self.text)

    @property
    def is_old(self) -> bool:
        """Return whether a program should not rely on it: it is stale, is being read anew, or was never read."""
        return self.is_stale or self.is_reading or self.text is None

    @property
    def etag(self) -> str:
        marks = ("stale" if self.is_stale else "", "reading" if self.is_reading else "", self.error["code"] if self.error else "")
        return "-".join((f"{self.made:.3f}", *filter(None, marks)))


@dataclass
class _Known:
    """One document of one environment, as it was at ``read``. ``asked``: the request under way, since when; ``tries``: how often the
    process ended over it; ``is_outdated``: something was done to the environment since it was asked for."""

    text: str | None = field(default=None, repr=False)
    made: float = 0.0
    read: float = 0.0
    answered: float = 0.0
    error: Mapping[str, Any] | None = None
    asked: Future[ReadAnswer | None] | None = None
    since: float = 0.0
    tries: int = 0
    is_outdated: bool = False


@dataclass
class PageReader:
    """Asks the child. Made once in an api-server process; nothing is started before the first look."""

    _known: OrderedDict[Key, _Known] = field(default_factory=OrderedDict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _child: ReadingProcess | None = None

    async def look(self, place: Place, name: str, **arguments: Any) -> Look:
        """Return the known state of a document. If it is older than two seconds, have it read anew."""
        return await self._look(place, name, arguments, WAIT_SECONDS)

    async def newest(self, place: Place, name: str, **arguments: Any) -> Look:
        """Return a document that is no older than two seconds, or the error; waits as long as an environment may take."""
        return await self._look(place, name, arguments, DEADLINE_SECONDS)

    async def act(self, place: Place, verb: str, who: str, **arguments: Any) -> Mapping[str, Any]:
        """Carry a verb out in somebody's name; return its document, or ``{"error": ...}``.

        What is known of the environment is read anew after it.
        """
        if place.refused is not None:
            return {"error": place.refused.to_json()}
        asked = self._ask(place, verb, arguments, who)
        await _wait(asked, DEADLINE_SECONDS)
        self.forget(place)
        if not asked.done():
            return {"error": {**UNREACHABLE, "next": "Look at the history: it may have been done all the same."}}
        answer = asked.result()
        if answer is None:
            return {"error": {**ENDED, "next": "Look at the history: it may have been done all the same."}}
        return {"error": answer.error} if answer.error else json.loads(answer.text or "{}")

    def forget(self, place: Place) -> None:
        """Have every document of an environment read anew at the next look."""
        store = store_key(place.location, place.options)
        with self._lock:
            for key, known in self._known.items():
                if key[0] == store:
                    known.is_outdated, known.answered = known.asked is not None, 0.0

    def close(self) -> None:
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.end()

    @property
    def pid(self) -> int | None:
        """Return the child's process id, while there is one."""
        return self._child.pid if self._child is not None and self._child.is_alive else None

    # --- the documents ---------------------------------------------------------------------------------------------------------------

    async def _look(self, place: Place, name: str, arguments: Mapping[str, Any], seconds: float) -> Look:
        if place.refused is not None:
            return Look(error=place.refused.to_json())
        key = (store_key(place.location, place.options), name, json.dumps(arguments, sort_keys=True))
        began, ends = time.time(), time.monotonic() + seconds
        known = self._refreshed(place, key, name, arguments)
        while known.answered < began and (known.asked is not None or _is_due(known)) and (left := ends - time.monotonic()) > 0:
            await (_wait(known.asked, left) if known.asked is not None else asyncio.sleep(min(left, _PAUSE_SECONDS)))
            known = self._refreshed(place, key, name, arguments)  # asks once more where the process ended, or something was done
        return _shown(known)

    def _refreshed(self, place: Place, key: Key, name: str, arguments: Mapping[str, Any]) -> _Known:
        with self._lock:
            known = self._known.setdefault(key, _Known())
            self._known.move_to_end(key)
            of_place = [item for other, item in self._known.items() if other[0] == key[0]]
        self._take(known)
        now = time.time()
        busy = [now - item.since for item in of_place if item.asked is not None and not item.asked.done()]
        if known.asked is None and _is_due(known):
            if len(busy) < _AT_ONCE and max(busy, default=0.0) < _SLOW_SECONDS:
                known.asked, known.since = self._ask(place, name, arguments, None, known.made), now
            elif max(busy) > DEADLINE_SECONDS:
                known.error = UNREACHABLE
        return known

    def _take(self, known: _Known) -> None:
        """Take up the answer if it is there, or say that none came."""
        asked = known.asked
        if asked is None:
            return
        if asked.done():
            answer, known.asked = asked.result(), None
            if answer is None:  # the process ended: asked once more, then that is said
                known.tries += 1
                known.answered, known.error = (0.0, known.error) if known.tries == 1 else (time.time(), ENDED)
                return
            known.tries, known.error = 0, answer.error
            known.answered = 0.0 if known.is_outdated else time.time()
            known.is_outdated = False
            if answer.error is None:
                known.read = answer.read
            if answer.text is not None:
                known.text, known.made = answer.text, answer.made
            self._trim()
        elif time.time() - known.since > DEADLINE_SECONDS:
            known.error = UNREACHABLE

    def _trim(self) -> None:
        """Forget the documents that nobody looked at for the longest time. One that is being asked for stays."""
        with self._lock:
            size = sum(len(item.text or "") for item in self._known.values())
            for key, item in list(self._known.items())[:-1]:
                if size <= _KEPT_BYTES and len(self._known) <= _KEPT:
                    return
                if item.asked is None:
                    size -= len(item.text or "")
                    del self._known[key]

    def _ask(self, place: Place, name: str, arguments: Mapping[str, Any], who: str | None, made: float = 0.0) -> Future[ReadAnswer | None]:
        with self._lock:
            if self._child is None or not self._child.is_alive:
                self._child = ReadingProcess(IDLE_SECONDS)
            return self._child.ask(ReadRequest(0, place.location, dict(place.options), name, arguments, who, made))


def _is_due(known: _Known) -> bool:
    return time.time() - known.answered > FRESH_SECONDS


async def _wait(asked: Future[Any], seconds: float) -> None:
    """Wait for a future, and leave it alone: who stops waiting does not cancel what others wait for."""
    loop = asyncio.get_running_loop()
    came = asyncio.Event()
    asked.add_done_callback(lambda _: None if loop.is_closed() else loop.call_soon_threadsafe(came.set))
    try:
        await asyncio.wait_for(came.wait(), seconds)
    except TimeoutError:
        return


def _shown(known: _Known) -> Look:
    now, is_there = time.time(), known.text is not None
    as_of = datetime.fromtimestamp(known.read, UTC).isoformat(timespec="seconds") if is_there else None
    is_old = is_there and now - max(known.read, known.answered) > STALE_SECONDS
    is_reading = is_old and known.error is None and known.asked is not None and now - known.since < READING_SECONDS
    return Look(known.text, as_of, known.error, is_there and (known.error is not None or is_old) and not is_reading, is_reading, known.made)
