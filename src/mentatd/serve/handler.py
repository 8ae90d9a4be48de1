"""Who answers a request: one of the router's own documents, or the proxy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from mentatd.errors import Refusal
from mentatd.http.request import Request
from mentatd.serve import refusals
from mentatd.serve.page import PAGE, PAGE_FIELDS
from mentatd.serve.status import Documents
from mentatd.wire.openai import render_refusal

if TYPE_CHECKING:
    from mentatd.http.connection import Connection

OWN_BODY_LIMIT = 64 * 1024
"""Bytes of a body that is read, and not looked at, of a request that is answered from a document."""
_JSON = b"application/json"
_HTML = b"text/html; charset=utf-8"
_MODEL = "/v1/models/"
_DOCUMENT = ("GET", "HEAD", "OPTIONS")
_FORWARDED = ("POST", "OPTIONS")

Answer = Callable[[Request, "Connection"], None]


class Forward(Protocol):
    """The proxy, as far as the handler knows it."""

    def admit(self, request: Request) -> Refusal | int:
        """As `mentatd.http.handler.Handler.admit`."""

    def handle(self, request: Request, connection: Connection) -> None:
        """Forward a whole request."""


class RouterHandler:
    """The server's `Handler`.

    The router's own paths are taken with or without a trailing slash; any other POST is forwarded as it came.
    """

    def __init__(self, proxy: Forward, documents: Documents) -> None:
        self._proxy = proxy
        self._documents = documents
        self._own: dict[str, Answer] = {
            "/": self._root,
            "/healthz": self._status,
            "/status.json": self._status,
            "/v1": self._models,
            "/v1/models": self._models,
        }

    def admit(self, request: Request) -> Refusal | int:
        """The proxy decides about what it gets; everything else needs no body."""
        own = self._find(request.path)
        if own is None and request.method == "POST":
            return self._proxy.admit(request)
        return _refuse_method(request, own) or OWN_BODY_LIMIT

    def handle(self, request: Request, connection: Connection) -> None:
        """Answer from a document, refuse, or hand on to the proxy."""
        own = self._find(request.path)
        if own is None and request.method == "POST":
            self._proxy.handle(request, connection)
        elif refusal := _refuse_method(request, own):
            connection.refuse(refusal)
        elif request.method == "OPTIONS":
            allow = ", ".join(_FORWARDED if own is None else _DOCUMENT).encode()
            connection.answer(204, b"", _JSON, ((b"Allow", allow),))
        elif own is None:
            connection.refuse(refusals.unknown_path(request.method, request.path))
        else:
            own(request, connection)

    def refuse(self, refusal: Refusal, request: Request | None) -> tuple[bytes, bytes]:
        """Every refusal goes out in OpenAI's envelope."""
        return _JSON, render_refusal(refusal)

    def _find(self, path: str) -> Answer | None:
        """Who answers at this path, if it is one of the router's own."""
        own = self._own.get(path)
        if own is None and path.endswith("/"):
            own = self._own.get(path[:-1])
        if own is None and path.startswith(_MODEL):
            return self._model
        return own

    def _models(self, request: Request, connection: Connection) -> None:
        connection.answer(200, self._documents.models(), _JSON)

    def _model(self, request: Request, connection: Connection) -> None:
        found = self._documents.model(request.path.removeprefix(_MODEL))
        if isinstance(found, Refusal):
            connection.refuse(found)
        else:
            connection.answer(200, found, _JSON)

    def _status(self, request: Request, connection: Connection) -> None:
        connection.answer(200, self._documents.status(), _JSON)

    def _root(self, request: Request, connection: Connection) -> None:
        """The page for a browser, the status document for everybody else."""
        if b"text/html" in (request.get(b"accept") or b"").lower():
            connection.answer(200, PAGE, _HTML, PAGE_FIELDS)
        else:
            connection.answer(200, self._documents.status(), _JSON, ((b"Vary", b"Accept"),))


def _refuse_method(request: Request, own: Answer | None) -> Refusal | None:
    """405 for a method that the path does not take; an unknown path is judged by the methods that can be meant."""
    if request.method in ("GET", "HEAD", "OPTIONS"):
        return None
    allow = _FORWARDED if own is None else _DOCUMENT
    return refusals.method_not_allowed(request.method, request.path, allow)
