"""A server between a client and a real one that does something just before a request is passed on."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

_OWN = {"connection", "transfer-encoding", "expect", "keep-alive", "date", "server"}


@contextmanager
def in_between(
    endpoint: str, before: Callable[[str, str], None], refuse: Callable[[Mapping[str, str]], bytes | None] = lambda headers: None
) -> Iterator[str]:
    """Pass all requests on to ``endpoint`` as they are, which keeps their signatures valid; yields where clients go instead.

    ``before(method, path)`` is called when a request has come as a whole, and before any of it is passed on. ``refuse(headers)``: the
    body of an answer 400 that the request gets instead, or None.
    """
    host = urlsplit(endpoint).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def passed_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            before(self.command, urlsplit(self.path).path)
            if (refusal := refuse(dict(self.headers))) is not None:
                self.send_response(400)
                self.send_header("content-length", str(len(refusal)))
                self.end_headers()
                self.wfile.write(b"" if self.command == "HEAD" else refusal)
                return
            there = http.client.HTTPConnection(host, timeout=60)
            there.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _OWN:
                    there.putheader(name, value)
            there.endheaders(body)
            answer = there.getresponse()
            found = answer.read()
            self.send_response(answer.status, answer.reason)
            length = answer.headers.get("content-length") if self.command == "HEAD" else None
            for name, value in answer.headers.items():
                if name.lower() not in (*_OWN, "content-length"):
                    self.send_header(name, value)
            self.send_header("content-length", length or str(len(found)))
            self.end_headers()
            self.wfile.write(found)
            there.close()

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = passed_on

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
