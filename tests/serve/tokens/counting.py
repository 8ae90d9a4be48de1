"""The two counting routes on a real server, in front of an engine that plays recorded answers."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.deadlines import within
from tests.support.scripted import Line, Script, Scripted, scripted

from mentatd.cluster.routes import EMPTY, Route, RouteTable
from mentatd.cluster.targets import parse_target
from mentatd.errors import Refusal
from mentatd.http.client import Client
from mentatd.http.pool import Pool
from mentatd.http.server import Connection, Request, Server
from mentatd.serve.answering import Answering
from mentatd.serve.enginekey import EngineKey
from mentatd.serve.inflight import Inflight
from mentatd.serve.tokens.endpoint import ANTHROPIC_PATH, BODY_LIMIT, RESPONSES_PATH, TokensEndpoint
from mentatd.wire.openai import render_refusal

NOT_FOUND = (
    b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 22\r\n\r\n"
    b'{"detail":"Not Found"}'
)


def answer(document: object, status: int = 200) -> bytes:
    """A JSON answer."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@dataclass
class Asked:
    """One question that an engine got."""

    path: str
    head: bytes
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def get(self, name: str) -> list[str]:
        """The values of a field, by its name in lower case."""
        lines = [line.partition(":") for line in self.head.decode("latin-1").split("\r\n")[1:]]
        return [value.strip() for key, _, value in lines if key.lower() == name]


_PATHS = {
    "tokenize": "/tokenize",
    "apply_template": "/apply-template",
    "responses": RESPONSES_PATH,
    "messages": ANTHROPIC_PATH,
}


class Engine:
    """Answers each path with its answers in order, the last one for ever; any other path with 404."""

    def __init__(self, **answers: bytes | list[bytes]) -> None:
        """By the short names of the paths."""
        self.asked: list[Asked] = []
        self._answers = {
            _PATHS[name]: [given] if isinstance(given, bytes) else given for name, given in answers.items()
        }

    @property
    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]

    async def __call__(self, line: Line) -> None:
        while True:
            head, _, body = (await line.request()).partition(b"\r\n\r\n")
            path = head.split(b" ")[1].decode()
            self.asked.append(Asked(path, head, body))
            answers = self._answers.get(path.partition("?")[0], [NOT_FOUND])
            line.send(answers.pop(0) if len(answers) > 1 else answers[0])


@dataclass
class Given:
    """What a client got."""

    status: int
    head: bytes
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        """The error of OpenAI's envelope, whose four members are all there."""
        error = self.json["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error


@dataclass
class Cluster:
    """The table as the test says."""

    table: RouteTable = EMPTY
    suspects: list[tuple[str, str]] = field(default_factory=list)

    def suspect(self, group: str, url: str) -> None:
        self.suspects.append((group, url))


class Counting:
    """A server with the two routes, and what it routes to."""

    def __init__(self, timeout_s: float) -> None:
        self.cluster = Cluster()
        self.pool = Pool()
        self.answering = Answering()
        self._endpoint = TokensEndpoint(
            self.cluster, Client(self.pool), Inflight(100.0), self.answering, EngineKey(), timeout_s=timeout_s
        )
        self.server = Server(self)
        self.stack = AsyncExitStack()

    def admit(self, request: Request) -> Refusal | int:
        return BODY_LIMIT

    def handle(self, request: Request, connection: Connection) -> None:
        if request.path == RESPONSES_PATH:
            self._endpoint.handle_responses(request, connection)
        else:
            self._endpoint.handle_anthropic(request, connection)

    def refuse(self, refusal: Refusal, request: Request | None) -> tuple[bytes, bytes]:
        return b"application/json", render_refusal(refusal)

    async def engine(self, script: Script, provider: str = "vllm", *before: str) -> Scripted:
        """Start an engine and route the model `m` to it; `before`: addresses that rank before its own."""
        engine = await self.stack.enter_async_context(scripted(script))
        self.route(provider, *before, f"{engine.url}/v1")
        return engine

    def route(self, provider: str, *urls: str) -> None:
        """Route the model `m` to these addresses."""
        route = Route("glm", tuple(map(parse_target, urls)), math.inf, provider=provider, trusted=frozenset())
        self.cluster.table = replace(EMPTY, models={"m": (route,)})

    async def post(self, path: str, body: bytes, fields: str = "Content-Type: application/json\r\n") -> Given:
        """Ask on a connection of its own."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port, limit=1 << 26)
        try:
            length = f"Connection: close\r\nContent-Length: {len(body)}\r\n"
            writer.write(f"POST {path} HTTP/1.1\r\nHost: r\r\n{length}{fields}\r\n".encode() + body)
            async with within():
                answered = await reader.read()
        finally:
            writer.transport.abort()
        head, _, rest = answered.partition(b"\r\n\r\n")
        return Given(int(head[9:12]), head, rest)

    async def responses(self, **request: Any) -> Given:
        """Ask OpenAI's route about the model `m`."""
        return await self.post(RESPONSES_PATH, json.dumps({"model": "m", **request}).encode())

    async def messages(self, **request: Any) -> Given:
        """Ask Anthropic's route about the model `m`."""
        return await self.post(ANTHROPIC_PATH, json.dumps({"model": "m", **request}).encode())


@asynccontextmanager
async def counting(timeout_s: float = 100.0) -> AsyncIterator[Counting]:
    """A started server; everything is closed at the end."""
    counting = Counting(timeout_s)
    await counting.server.start(0, ("127.0.0.1",))
    try:
        yield counting
    finally:
        await counting.server.close()
        await counting.answering.close()
        await counting.stack.aclose()
        await counting.pool.close()
