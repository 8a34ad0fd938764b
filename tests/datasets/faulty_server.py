"""A real HTTP server on 127.0.0.1 that serves real bytes and misbehaves in the order it is told to."""

import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Status:
    """Answer with an error."""

    code: int
    reason: str | None = None


@dataclass(frozen=True)
class Cut:
    """Announce the whole answer, send this many bytes of it and hang up."""

    after: int


@dataclass(frozen=True)
class Stall:
    """Send this many bytes, then nothing until the test ends; unannounced, they might be all there are."""

    after: int
    announced: bool = True


@dataclass(frozen=True)
class Lie:
    """Announce this length, whatever is sent."""

    length: int


@dataclass(frozen=True)
class IgnoreRange:
    """Send everything, whatever part was asked for."""


@dataclass(frozen=True)
class WrongRange:
    """Claim to send the part that was asked for, but say that it starts elsewhere."""


@dataclass
class Page:
    body: bytes
    faults: deque = field(default_factory=deque)
    etag: str = '"1"'
    content_type: str = "application/octet-stream"


class Server:
    """``pages`` by path; every request is noted in ``requests`` as (path, Range header)."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.stalled = threading.Event()  # set when a Stall has sent its bytes
        self.released = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self)

            def log_message(self, *arguments: object) -> None:
                pass

        self.httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.httpd.server_port}"
        self.thread = threading.Thread(target=self.httpd.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def serve(self, path: str, body: bytes, *faults: object, **options: str) -> str:
        self.pages[path] = Page(body, deque(faults), **options)
        return self.url + path

    def close(self) -> None:
        self.released.set()
        self.httpd.shutdown()
        self.httpd.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers.get("Range")
        self.requests.append((request.path, wanted))
        page = self.pages.get(request.path)
        if page is None:
            request.send_error(404)
            return
        fault = page.faults.popleft() if page.faults else None
        if isinstance(fault, Status):
            request.send_error(fault.code, fault.reason)
            return
        whole = wanted is None or isinstance(fault, IgnoreRange)
        whole = whole or request.headers.get("If-Range", page.etag) != page.etag
        start = 0 if whole else int(wanted.removeprefix("bytes=").split("-")[0])
        if start >= len(page.body) and not whole:
            request.send_error(416)
            return
        self._send(request, page, page.body[start:], None if whole else start, fault)

    def _send(
        self, request: BaseHTTPRequestHandler, page: Page, body: bytes, start: int | None, fault: object
    ) -> None:
        request.send_response(200 if start is None else 206)
        if start is not None:
            shown = start + 1 if isinstance(fault, WrongRange) else start
            request.send_header("Content-Range", f"bytes {shown}-{len(page.body) - 1}/{len(page.body)}")
        if not isinstance(fault, Stall) or fault.announced:
            length = fault.length if isinstance(fault, Lie) else len(body)
            request.send_header("Content-Length", str(length))
        request.send_header("Content-Type", page.content_type)
        if page.etag:
            request.send_header("ETag", page.etag)
        request.end_headers()
        sent = body[: fault.after] if isinstance(fault, Cut | Stall) else body
        request.wfile.write(sent)
        request.wfile.flush()
        if isinstance(fault, Stall):
            self.stalled.set()
            self.released.wait()
        request.close_connection = True
