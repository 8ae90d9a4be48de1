"""Who answers a request: one of the router's own documents, or the proxy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from mentatd.errors import Refusal
from mentatd.http.request import Head, Request
from mentatd.serve import refusals
from mentatd.serve.answering import Answer
from mentatd.serve.cors import Cors
from mentatd.serve.pagefiles import PAGE, PARTS
from mentatd.serve.status import Documents
from mentatd.wire.openai import render_refusal

if TYPE_CHECKING:
    from mentatd.http.connection import Connection

UNREAD_BODY_LIMIT: Final = 64 * 1024
"""Bytes of a body that is read, and not looked at, of a request that needs none."""
_JSON: Final = b"application/json"
_MODEL: Final = "/v1/models/"
_FORWARDED: Final = ("POST", "OPTIONS")

Refused = Callable[[Refusal, Request | None, bool], None]
"""Told of each refusal: of which request, None when no head could be read, and whether that was being forwarded."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What the router itself answers at one path."""

    answer: Answer
    methods: tuple[str, ...] = ("GET", "HEAD", "OPTIONS")
    """Those that the path takes; OPTIONS is always one of them and answered by the handler."""
    body_limit: int = UNREAD_BODY_LIMIT
    """Bytes of a request's body."""


class Forward(Protocol):
    """The proxy, as far as the handler knows it."""

    def admit(self, request: Request) -> Refusal | int:
        """As `mentatd.http.handler.Handler.admit`."""

    def forwarder(self, head: Head) -> Answer:
        """Who forwards the requests with this head, once they are whole."""


class RouterHandler:
    """The server's `Handler`.

    The router's own paths are taken with or without a trailing slash; any other POST is forwarded as it came.
    """

    def __init__(
        self,
        proxy: Forward,
        documents: Documents,
        endpoints: Mapping[str, Endpoint] | None = None,
        refused: Refused = lambda refusal, request, forwarded: None,
        cors: Cors | None = None,
    ) -> None:
        """`endpoints`: further paths of the router's own, without a trailing slash."""
        self._cors = cors or Cors()
        self._proxy = proxy
        self._refused = refused
        self._documents = documents
        status, models = Endpoint(self._status), Endpoint(self._models)
        self._model = Endpoint(self._one_model)
        own = {
            "/healthz": status,
            "/status.json": status,
            "/v1": models,
            "/v1/models": models,
            **(endpoints or {}),
        }
        self._own = own | {f"{path}/": endpoint for path, endpoint in own.items()}
        self._own |= {path: Endpoint(file.answer) for path, file in PARTS.items()}
        self._own["/"] = Endpoint(self._root)

    def admit(self, request: Request) -> Refusal | int:
        """The proxy decides about what it gets; an endpoint says how much it reads."""
        own = self._find(request.path)
        if request.method == "POST" and self._cors.refuses(request.head):
            return refusals.origin_not_allowed()
        if own is None and request.method == "POST":
            return self._proxy.admit(request)
        limit = UNREAD_BODY_LIMIT if own is None else own.body_limit
        return _refuse_method(request.head, own) or limit

    def handle(self, request: Request, connection: Connection) -> None:
        """Answer at an endpoint, refuse, or forward: who does, its head says, and is asked once."""
        head = request.head
        answer: Answer | None = head.note
        if answer is None:
            answer = head.note = self._choose(head)
        answer(request, connection)

    def _choose(self, head: Head) -> Answer:
        """Who answers the requests with this head."""
        method, own = head.method, self._find(head.path)
        if method == "POST" and self._cors.refuses(head):
            return _refusing(refusals.origin_not_allowed())
        if own is None and method == "POST":
            return self._proxy.forwarder(head)
        if refusal := _refuse_method(head, own):
            return _refusing(refusal)
        if method == "OPTIONS":
            allow = ", ".join(_FORWARDED if own is None else own.methods).encode()
            return _answering_options((b"Allow", allow), *self._cors.preflight(head, allow))
        if own is None:
            return _refusing(refusals.unknown_path(method, head.path))
        return own.answer

    def refuse(self, refusal: Refusal, request: Request | None) -> tuple[bytes, bytes]:
        """Every refusal goes out in OpenAI's envelope."""
        self._refused(refusal, request, request is not None and self._find(request.path) is None)
        return _JSON, render_refusal(refusal)

    def _find(self, path: str) -> Endpoint | None:
        """The endpoint at this path, if it is one of the router's own."""
        own = self._own.get(path)
        return self._model if own is None and path.startswith(_MODEL) else own

    def _models(self, request: Request, connection: Connection) -> None:
        connection.answer(200, self._documents.models(), _JSON)

    def _one_model(self, request: Request, connection: Connection) -> None:
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
            PAGE.answer(request, connection)
        else:
            connection.answer(200, self._documents.status(), _JSON, ((b"Vary", b"Accept"),))


def _refusing(refusal: Refusal) -> Answer:
    return lambda request, connection: connection.refuse(refusal)


def _answering_options(*fields: tuple[bytes, bytes]) -> Answer:
    return lambda request, connection: connection.answer(204, b"", _JSON, fields)


def _refuse_method(head: Head, own: Endpoint | None) -> Refusal | None:
    """405 for a method that the path does not take; GET and HEAD of an unknown path are left to be a 404."""
    allowed = _FORWARDED if own is None else own.methods
    if head.method in allowed or (own is None and head.method in ("GET", "HEAD")):
        return None
    return refusals.method_not_allowed(head.method, head.path, allowed)
