"""The process that reads environments: when it is there, what it costs, and what is shown when it, or a store, does not answer."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.web import messages, reading
from airflow_provider_schemamig.web.process import ReadingProcess
from airflow_provider_schemamig.web.reading import PageReader
from tests.support.lake import Lake, make_lake
from tests.support.page.app import Page
from tests.support.processes import wait_until
from tests.support.stores.silent_server import silent_server

pytestmark = [pytest.mark.airflow, pytest.mark.some(6, of="what the page's reading process does")]


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[PageReader]:
    """A reader that looks anew whenever it is asked."""
    monkeypatch.setattr(reading, "FRESH_SECONDS", 0.05)
    found = PageReader()
    yield found
    found.close()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    found = make_lake(tmp_path_factory.mktemp("lake"))
    found.upgrade(found.first)
    return found


def place(lake: Lake, key: str = "lake", **options: str) -> Any:
    from airflow_provider_schemamig.web.places import Place

    return Place(key, key, lake.env.location.uri, key, lake.env.location.uri, options)


def silent(port: int, key: str = "far") -> Any:
    from airflow_provider_schemamig.web.places import Place

    options = {
        "endpoint": f"http://127.0.0.1:{port}",
        "region": "r",
        "access_key_id": "K",
        "secret_access_key": "S3CRET",
        "allow_http": "true",
    }
    return Place(key, key, f"s3://{key}/lake", key, f"s3://{key}/lake", options)


def is_there(pid: int | None) -> bool:
    """Whether a process runs; what has ended and was not waited for does not."""
    try:
        return pid is not None and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_page_reading_nothing_is_started_before_somebody_looks_and_one_process_is_for_all(reader: PageReader, lake: Lake) -> None:
    assert reader.pid is None

    async def all_look() -> list[Any]:
        return await asyncio.gather(*(reader.newest(place(lake), "overview") for _ in range(20)))

    looks = asyncio.run(all_look())
    pid = reader.pid
    assert {look.document["version"] for look in looks} == {"1.0.0"} and is_there(pid)
    asyncio.run(all_look())
    assert reader.pid == pid


def test_viewers_share_one_request(reader: PageReader, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    ask = ReadingProcess.ask

    def told(self: ReadingProcess, request: messages.ReadRequest) -> Any:
        asked.append(request.name)
        return ask(self, request)

    monkeypatch.setattr(ReadingProcess, "ask", told)

    async def looks() -> None:
        await asyncio.gather(*(reader.newest(place(lake), name) for name in ("overview", "tables") for _ in range(50)))

    asyncio.run(looks())
    assert sorted(asked) == ["overview", "tables"]


def test_page_reading_ends_when_nobody_looks(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "IDLE_SECONDS", 0.3)
    reader = PageReader()
    asyncio.run(reader.newest(place(lake), "overview"))
    pid = reader.pid
    assert is_there(pid)
    wait_until(lambda: not is_there(pid))
    assert asyncio.run(reader.newest(place(lake), "tables")).document["tables"], "and begins again"
    reader.close()


def test_a_killed_process_is_not_noticed_by_who_looks(reader: PageReader, lake: Lake) -> None:
    asyncio.run(reader.newest(place(lake), "overview"))
    first = reader.pid
    assert first is not None

    async def killed_in_the_middle() -> Any:
        os.kill(first, signal.SIGSTOP)  # it has the request, and no answer comes
        looking = asyncio.create_task(reader.newest(place(lake), "drift"))
        await asyncio.sleep(0.1)
        os.kill(first, signal.SIGKILL)
        return await looking

    look = asyncio.run(killed_in_the_middle())
    assert look.document["tables"] == [] and look.error is None
    assert reader.pid not in (None, first)


def test_a_process_that_always_dies_is_told_and_not_started_for_ever(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    monkeypatch.setattr(sys, "executable", "/bin/false")
    init = ReadingProcess.__init__

    def told(self: ReadingProcess, seconds: float) -> None:
        started.append(1)
        init(self, seconds)

    monkeypatch.setattr(ReadingProcess, "__init__", told)
    reader = PageReader()
    look = asyncio.run(reader.look(place(lake), "overview"))
    deadline = time.monotonic() + 5
    while look.error is None and time.monotonic() < deadline:
        look = asyncio.run(reader.look(place(lake), "overview"))
    assert look.error is not None and look.error["code"] == "reader_ended" and look.document is None
    assert len(started) <= 3
    done = asyncio.run(reader.act(place(lake), "pause", "ann", collection=None, reason="x"))
    assert done["error"]["code"] == "reader_ended" and "history" in done["error"]["next"]
    reader.close()


def test_page_reading_ends_with_a_killed_parent_also_while_a_store_is_silent(tmp_path: Path) -> None:
    """``kill -9`` of the api-server: nobody closes anything."""
    with silent_server() as port:
        program = (
            "import sys, time\n"
            "from airflow_provider_schemamig.web.messages import ReadRequest\n"
            "from airflow_provider_schemamig.web.process import ReadingProcess\n"
            "found = ReadingProcess(60.0)\n"
            f"options = {dict(silent(port).options)!r}\n"
            "found.ask(ReadRequest(0, 's3://far/lake', options, 'overview', {}))\n"
            "print(found.pid, flush=True); time.sleep(60)\n"
        )
        parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        wait_until(lambda: is_there(child))
        time.sleep(0.5)
        parent.kill()
        parent.wait()
        wait_until(lambda: not is_there(child), 15)


def test_an_environment_out_of_reach_holds_no_other_up(reader: PageReader, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "DEADLINE_SECONDS", 0.6)
    monkeypatch.setattr(reading, "_SLOW_SECONDS", 0.2)
    with silent_server() as port:
        far = [silent(port, f"far{number}") for number in range(12)]

        async def look_at_all() -> tuple[list[Any], Any, float]:
            await reader.look(place(lake), "overview")
            await asyncio.gather(*(reader.look(item, name) for item in far for name in ("overview", "tables", "drift", "streams")))
            await asyncio.sleep(0.7)
            began = time.monotonic()
            near = await reader.look(place(lake), "tables")
            while near.document is None and time.monotonic() - began < 10:
                near = await reader.look(place(lake), "tables")
            took = time.monotonic() - began
            return [await reader.look(item, name) for item in far for name in ("overview", "streams")], near, took

        looks, near, took = asyncio.run(look_at_all())
    assert near.document is not None and took < 5
    assert {look.error and look.error["code"] for look in looks} == {"unreachable"}
    assert not any("S3CRET" in str(look) for look in looks)


def test_an_action_on_an_environment_out_of_reach_says_so_and_others_are_answered(
    reader: PageReader, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "DEADLINE_SECONDS", 0.5)
    with silent_server() as port:
        done = asyncio.run(reader.act(silent(port), "pause", "ann", collection=None, reason="x"))
    assert done["error"]["code"] == "unreachable"
    monkeypatch.setattr(reading, "DEADLINE_SECONDS", 30.0)
    assert asyncio.run(reader.newest(place(lake), "overview")).document["version"] == "1.0.0", "who listens is there still"


def test_old_documents_say_so(reader: PageReader, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = asyncio.run(reader.newest(place(lake), "overview"))
    assert not fresh.is_stale and not fresh.is_reading and fresh.as_of is not None
    ((_, known),) = reader._known.items()
    monkeypatch.setattr(ReadingProcess, "ask", lambda self, request: Future())
    known.read = known.answered = time.time() - 60
    first = asyncio.run(reader.look(place(lake), "overview"))
    assert (first.is_reading, first.is_stale) == (True, False), "the first look after a while says that it reads, and is not alarming"
    known.since -= 5
    assert asyncio.run(reader.look(place(lake), "overview")).is_stale
    known.since -= 60
    late = asyncio.run(reader.look(place(lake), "overview"))
    assert late.is_stale and late.error is not None and late.document["version"] == "1.0.0"
    assert len({fresh.etag, first.etag, late.etag}) == 3


def test_page_reading_what_was_done_is_seen_at_once(reader: PageReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = make_lake(tmp_path)
    lake.upgrade(lake.first)
    monkeypatch.setattr(reading, "FRESH_SECONDS", 60.0)
    assert asyncio.run(reader.newest(place(lake), "status")).document["controls"] == []
    assert "error" not in asyncio.run(reader.act(place(lake), "pause", "ann", collection=None, reason="x"))
    look = asyncio.run(reader.newest(place(lake), "status"))
    assert [control["reason"] for control in look.document["controls"]] == ["x"] and not look.is_stale


def test_the_same_document_is_not_sent_again_and_is_as_of_now(reader: PageReader, lake: Lake) -> None:
    first = asyncio.run(reader.newest(place(lake), "tables"))
    time.sleep(0.05)
    second = asyncio.run(reader.newest(place(lake), "tables"))
    assert second.made == first.made and second.etag == first.etag


def test_documents_are_forgotten_beyond_a_size_but_not_what_is_asked_for(
    reader: PageReader, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_KEPT", 5)
    for number in range(12):
        look = asyncio.run(reader.newest(place(lake), "table", collection=f"none{number}"))
        assert look.error is not None and look.error["code"] == "unknown_collection"
    assert len(reader._known) <= 6


def test_many_environments_are_all_shown(reader: PageReader, lake: Lake) -> None:
    """More than are kept of one: a list that forgets its beginning would read for ever."""
    places = [place(lake, f"lake{number}", **{f"option_{number}": "x"}) for number in range(70)]

    async def look() -> list[Any]:
        await asyncio.gather(*(reader.newest(item, "overview") for item in places))
        return await asyncio.gather(*(reader.look(item, "overview") for item in places))

    assert all(found.document is not None for found in asyncio.run(look()))


def test_credentials_of_one_connection_open_nothing_for_another(reader: PageReader, lake: Lake) -> None:
    asyncio.run(reader.newest(place(lake), "overview"))
    asyncio.run(reader.newest(place(lake, "other", timeout="1s"), "overview"))
    assert len(reader._known) == 2


def test_one_uri_at_two_endpoints_is_two_stores(reader: PageReader, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that does not answer holds the other up in nothing, and an action on it has nothing of the other read anew."""
    monkeypatch.setattr(reading, "_SLOW_SECONDS", 0.1)
    near, far = place(lake), place(lake, "far", aws_endpoint_url="https://far.example", aws_secret_access_key="S3CRET")
    ask = ReadingProcess.ask

    def silent_there(self: ReadingProcess, request: messages.ReadRequest) -> Any:
        return Future() if request.options else ask(self, request)

    monkeypatch.setattr(ReadingProcess, "ask", silent_there)

    async def looks() -> Any:
        await asyncio.gather(*(reader.look(far, name) for name in ("overview", "tables", "drift", "streams")))
        await asyncio.sleep(0.3)
        return await reader.newest(near, "overview")

    assert asyncio.run(looks()).document["version"] == "1.0.0"
    answered = [known.answered for known in reader._known.values() if known.text is not None]
    reader.forget(far)
    assert [known.answered for known in reader._known.values() if known.text is not None] == answered
    assert len({key[0] for key in reader._known}) == 2 and "S3CRET" not in str(reader._known) + repr(reader)


def test_a_large_process_leaves_and_nothing_is_lost(lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever the size of the api-server: a process that forks takes over its parent's peak as its own."""
    monkeypatch.setattr(messages, "LEAVES_AT", 1)
    from airflow_provider_schemamig.web import child

    monkeypatch.setattr(child, "LEAVES_AT", 1)
    lines = tmp_path / "answers"
    with lines.open("wb") as out:
        found = child.Child(out)
        for number in (1, 2):
            found.answer(messages.ReadRequest(number, lake.env.location.uri, {}, "overview", {}))
    answers = [messages.ReadAnswer.from_line(line) for line in lines.read_bytes().splitlines()]
    assert [(answer.number, answer.leaves) for answer in answers] == [(1, False), (0, True), (2, False)]
    assert 10_000_000 < child.resident_bytes() < 2_000_000_000


def test_a_page_that_asks_too_often_costs_one_reading(page: Page, lake: Lake) -> None:
    page.connect("lake", lake.env.location.uri)
    page.view("/env/lake/tables")
    etag = page.view("/env/lake/tables").partition('data-etag="')[2].partition('"')[0]
    answers = [page.get("/env/lake/tables", headers={"If-None-Match": etag}) for _ in range(20)]
    assert {answer.status_code for answer in answers} == {204}
    assert all(answer.headers["x-as-of"] and not answer.content for answer in answers)


def test_the_reading_process_imports_nothing_of_airflow() -> None:
    program = (
        "import sys; import airflow_provider_schemamig.web.child; print([name for name in sys.modules if name.split('.')[0] == 'airflow'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
