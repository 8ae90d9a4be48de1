"""A router's outside, for the page alone: the real files, scripted documents, a stream that a test writes to."""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.page.scene import Scene

from mentatd.serve.pagefiles import PAGE, PARTS, PageFile

_END = object()


class _Server(ThreadingHTTPServer):
    """Ends its connections, and waits for the threads that serve them."""

    daemon_threads = False
    request_queue_size = 64

    def __init__(self, *args: Any) -> None:
        self._connections: set[Any] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that leaves is no fault."""

    def cut(self) -> None:
        for connection in tuple(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class FakeRouter:
    """Serves a scene. `tell` brings its newest state to every open page, as the router does each second."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.streaming = True
        """False: `/events.json` is refused, as it is with too many pages open."""
        self.refusing = False
        """Everything is refused."""
        self.asked: list[str] = []
        """Each path that was asked for, oldest first."""
        self._streams: set[queue.SimpleQueue[Any]] = set()
        self._lock = threading.Lock()
        self._server = self._listen(0)
        self.port: int = self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def streams(self) -> int:
        """Open streams."""
        return len(self._streams)

    def tell(self, *, status: bool = True) -> None:
        """The next second."""
        recent = self.scene.step()
        events: list[tuple[str, Any]] = [("stats", self.scene.stats(limit=200)), ("recent", recent)]
        if status:
            events.insert(1, ("status", self.scene.status()))
        self.push(*events)

    def push(self, *events: tuple[str, Any]) -> None:
        data = b"".join(_event(name, document) for name, document in events)
        with self._lock:
            for stream in self._streams:
                stream.put(data)

    def vanish(self) -> None:
        """End like a killed router: the port and every connection."""
        self._server.shutdown()
        with self._lock:
            for stream in self._streams:
                stream.put(_END)
        self._server.cut()
        self._server.server_close()

    def return_(self) -> None:
        """Listen again, on the same port."""
        self._server = self._listen(self.port)

    def _listen(self, port: int) -> _Server:
        router = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                router.answer(self)

            def log_message(self, *args: Any, **more: Any) -> None:
                """Nothing: a test says what went wrong."""

        server = _Server(("127.0.0.1", port), Handler)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return server

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = request.path.partition("?")[0]
        self.asked.append(path)
        scene = self.scene
        documents = {"/stats.json": scene.stats, "/status.json": scene.status, "/history.json": scene.history}
        if path == "/":
            _send_file(request, PAGE)
        elif path in PARTS:
            _send_file(request, PARTS[path])
        elif path in documents and not self.refusing:
            _send(request, 200, json.dumps(documents[path]()).encode())
        elif path == "/events.json" and self.streaming:
            self._stream(request)
        else:
            refusal = {
                "error": {"message": "64 pages are open already", "type": "server_error", "code": "busy"}
            }
            _send(request, 503, json.dumps(refusal).encode())

    def _stream(self, request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream")
        request.send_header("Connection", "close")
        request.end_headers()
        stream: queue.SimpleQueue[Any] = queue.SimpleQueue()
        state = {"stats": self.scene.stats(limit=200), "status": self.scene.status()}
        stream.put(_event("state", state))
        with self._lock:
            self._streams.add(stream)
        try:
            while (data := _next(stream)) is not _END:
                request.wfile.write(data)
        except OSError:
            pass
        finally:
            with self._lock:
                self._streams.discard(stream)


def _next(stream: queue.SimpleQueue[Any]) -> Any:
    """What to write next; a comment each half second, so that a page that is gone is noticed."""
    try:
        return stream.get(timeout=0.5)
    except queue.Empty:
        return b": still here\n\n"


def _event(name: str, document: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(document)}\n\n".encode()


def _send_file(request: BaseHTTPRequestHandler, file: PageFile) -> None:
    _send(request, 200, file.body, file.content_type.decode(), file.fields)


def _send(
    request: BaseHTTPRequestHandler,
    status: int,
    body: bytes,
    content_type: str = "application/json",
    fields: tuple[tuple[bytes, bytes], ...] = (),
) -> None:
    request.send_response(status)
    request.send_header("Content-Type", content_type)
    request.send_header("Content-Length", str(len(body)))
    for name, value in fields:
        request.send_header(name.decode(), value.decode())
    request.end_headers()
    request.wfile.write(body)


@contextmanager
def serving(scene: Scene) -> Iterator[FakeRouter]:
    """A fake router while the block runs."""
    router = FakeRouter(scene)
    try:
        yield router
    finally:
        router.vanish()
