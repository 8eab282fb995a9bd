"""An object store that answers each request after a while: what an S3 API has to have for us, in memory, in a process of its own.

``python -m bench.tools.slow_store MILLISECONDS`` prints its port and serves on 127.0.0.1 until it ends. GET /_requests: how many requests
there were by kind, as JSON, since it was asked last.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

_PAGE = 1000
_WHEN = "2026-01-01T00:00:00.000Z"
_ANSWERS = {200: "OK", 204: "No Content", 206: "Partial Content", 404: "Not Found", 412: "Precondition Failed"}


@dataclass
class Bucket:
    """Keys with their bytes and tags. Python runs one handler at a time, so a conditional put is atomic."""

    latency_s: float
    objects: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    tags: itertools.count[int] = field(default_factory=itertools.count)

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(target)
        key, query = unquote(parts.path).strip("/").partition("/")[2], parse_qs(parts.query, keep_blank_values=True)
        if method == "GET" and "list-type" in query:
            return 200, {"Content-Type": "application/xml"}, self._listing({name: values[0] for name, values in query.items()})
        if method == "POST" and "delete" in query:
            gone = [found.partition("</Key>")[0] for found in body.decode().split("<Key>")[1:]]
            for found in gone:
                self.objects.pop(unescape(found), None)
            told = "".join(f"<Deleted><Key>{found}</Key></Deleted>" for found in gone)
            return 200, {"Content-Type": "application/xml"}, f"<DeleteResult>{told}</DeleteResult>".encode()
        if method == "PUT":
            if headers.get("if-none-match") == "*" and key in self.objects:
                return 412, {}, b"<Error><Code>PreconditionFailed</Code></Error>"
            self.objects[key] = (body, f'"{next(self.tags)}"')
            return 200, {"ETag": self.objects[key][1]}, b""
        if method == "DELETE":
            self.objects.pop(key, None)
            return 204, {}, b""
        if key not in self.objects:
            return 404, {}, b"" if method == "HEAD" else b"<Error><Code>NoSuchKey</Code></Error>"
        data, tag = self.objects[key]
        about = {"ETag": tag, "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
        if method == "HEAD":
            return 200, {**about, "Content-Length": str(len(data))}, b""
        if "range" in headers:
            first, _, last = headers["range"].removeprefix("bytes=").partition("-")
            begin, end = (int(first), int(last or len(data) - 1)) if first else (max(0, len(data) - int(last)), len(data) - 1)
            about["Content-Range"] = f"bytes {begin}-{min(end, len(data) - 1)}/{len(data)}"
            return 206, about, data[begin : end + 1]
        return 200, about, data

    def _listing(self, query: Mapping[str, str]) -> bytes:
        prefix, after = query.get("prefix", ""), query.get("continuation-token") or query.get("start-after", "")
        keys = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
        folders: dict[str, None] = {}
        if query.get("delimiter"):
            below = {key: key[len(prefix) :].partition("/") for key in keys}
            folders = {f"{prefix}{name}/": None for name, slash, _ in below.values() if slash}
            keys = [key for key in keys if not below[key][1]]
        page, more = keys[:_PAGE], len(keys) > _PAGE
        text = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{_WHEN}</LastModified><ETag>{escape(self.objects[key][1])}</ETag>"
            f"<Size>{len(self.objects[key][0])}</Size></Contents>"
            for key in page
        )
        text += "".join(f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in folders)
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        text += f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}<KeyCount>{len(page)}</KeyCount>"
        return f'<?xml version="1.0"?><ListBucketResult><Name>b</Name><Prefix>{escape(prefix)}</Prefix>{text}</ListBucketResult>'.encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                method, target, _ = line.decode().split()
                headers: dict[str, str] = {}
                while (text := (await reader.readline()).decode().strip()) != "":
                    name, _, value = text.partition(":")
                    headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                about: dict[str, str] = {}
                if target == "/_requests":
                    code, data = 200, json.dumps(self.requests).encode()
                    self.requests.clear()
                else:
                    self.requests["LIST" if "list-type" in target else method] += 1
                    await asyncio.sleep(self.latency_s)
                    code, about, data = self.answer(method, target, headers, body)
                about.setdefault("Content-Length", str(len(data)))
                head = "".join(f"{name}: {value}\r\n" for name, value in about.items())
                writer.write(f"HTTP/1.1 {code} {_ANSWERS[code]}\r\n{head}\r\n".encode() + data)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def _main(latency_ms: float) -> None:
    bucket = Bucket(latency_ms / 1000)
    server = await asyncio.start_server(bucket.serve, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(float(sys.argv[1])))
