"""A server of S3's protocol in this process that can be told to answer wrongly: what real servers do too rarely to be tested."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape


@dataclass(frozen=True)
class Said:
    """An answer: HTTP's status and body."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def error(cls, status: int, code: str, message: str, more: str = "") -> Said:
        text = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message>{more}</Error>'
        return cls(status, text.encode(), (("content-type", "application/xml"),))


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes = field(repr=False)


Answerer = Callable[[Asked], Said | None]


class FakeS3:
    """One bucket in memory. ``answers`` are asked first, in turn: the first that is not None is what the client gets."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        #: The headers of an object that are its writer's own.
        self.marks: dict[str, dict[str, str]] = {}
        self.requests: list[Asked] = []
        self.answers: list[Answerer] = []
        self._lock = threading.Lock()

    def of(self, method: str) -> list[Asked]:
        return [asked for asked in self.requests if asked.method == method]

    def answer(self, asked: Asked) -> Said:
        self.requests.append(asked)
        for answerer in self.answers:
            if (said := answerer(asked)) is not None:
                return said
        with self._lock:
            return self._served(asked)

    def _served(self, asked: Asked) -> Said:
        key = unquote(asked.path).partition("/")[2].partition("/")[2]
        if asked.method == "PUT":
            if asked.headers.get("if-none-match") == "*" and key in self.objects:
                return Said.error(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
            self.objects[key] = asked.body
            self.marks[key] = {name: value for name, value in asked.headers.items() if name.startswith("x-amz-meta-")}
            return Said(200, headers=(("etag", '"1"'),))
        if asked.method == "POST":  # a list of what is to be deleted
            doomed = re.findall(r"<Key>([^<]*)</Key>", asked.body.decode())
            for key in map(unescape, doomed):
                self.objects.pop(key, None)
            return Said(200, f"<DeleteResult>{''.join(f'<Deleted><Key>{key}</Key></Deleted>' for key in doomed)}</DeleteResult>".encode())
        if asked.query.get("list-type"):
            return listing(self.objects, asked.query.get("prefix", ""), asked.query.get("start-after", ""))
        if key not in self.objects:
            return Said.error(404, "NoSuchKey", "The specified key does not exist.")
        marks = tuple(self.marks.get(key, {}).items())
        return Said(200, self.objects[key], (("etag", '"1"'), ("last-modified", "Tue, 24 Nov 2026 06:00:00 GMT"), *marks))


def listing(keys: Sequence[str] | dict[str, bytes], prefix: str, after: str = "") -> Said:
    found = "".join(
        f'<Contents><Key>{escape(key)}</Key><LastModified>2026-11-24T06:00:00.000Z</LastModified><ETag>"1"</ETag><Size>1</Size></Contents>'
        for key in sorted(keys)
        if key.startswith(prefix) and key > after
    )
    text = f'<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>'
    return Said(200, text.encode(), (("content-type", "application/xml"),))


def times(count: int, said: Said, method: str | None = None) -> Answerer:
    """Answer ``count`` requests (of ``method``) with ``said``."""
    left = [count]

    def answer(asked: Asked) -> Said | None:
        if left[0] == 0 or method not in (None, asked.method):
            return None
        left[0] -= 1
        return said

    return answer


def always(said: Said, method: str | None = None) -> Answerer:
    return times(-1, said, method)


def after_seconds(seconds: float) -> Answerer:
    def answer(asked: Asked) -> Said | None:
        time.sleep(seconds)
        return None

    return answer


@contextmanager
def serving(fake: FakeS3) -> Iterator[str]:
    """Serve on loopback; yields the endpoint."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except (BrokenPipeError, ConnectionResetError):  # a client that did not wait
                self.close_connection = True

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            said = fake.answer(Asked(self.command, self.path if "://" in self.path else parts.path, query, headers, body))
            self.send_response(said.status)
            for name, value in said.headers:
                self.send_header(name, value)
            self.send_header("content-length", str(len(said.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(said.body)

        do_GET = do_HEAD = do_PUT = do_POST = answer

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
