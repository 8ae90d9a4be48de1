"""`/mcp` of a whole router: its daemon says where the groups' servers are, a client speaks HTTP."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.serve.mcp.stub import Asked, Stateful, Stub, never, plain, result, said, serving
from tests.support.daemons import ScriptedDaemon
from tests.support.deadlines import until, within
from tests.support.views import agent, group_view, view

from mentatd.http.connection import Connection
from mentatd.http.request import Head, Request
from mentatd.serve.answering import Answering
from mentatd.serve.app import Router
from mentatd.serve.mcp.endpoint import BODY_LIMIT, McpEndpoint, origin_allowed
from mentatd.serve.mcp.merge import Merge
from mentatd.settings import read_settings
from mentatd.wire.jsonrpc import Call
from mentatd.wire.service import PortService

CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"glm__status"}}'
PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}


class World:
    """A router and the MCP server of its one group, whose engine is not there."""

    def __init__(self, router: Router, stub: Stub) -> None:
        self.router = router
        self.stub = stub

    async def send(
        self, body: bytes | str = b"", method: str = "POST", path: str = "/mcp", **fields: str
    ) -> Answer:
        """One request on a connection of its own."""
        data = body.encode() if isinstance(body, str) else body
        head = {
            "Host": f"127.0.0.1:{self.router.port}",
            "Content-Length": str(len(data)),
            "Connection": "close",
        }
        head |= {name.replace("_", "-"): value for name, value in fields.items()}
        lines = "\r\n".join(
            [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", self.router.port)
        writer.write(lines.encode("latin-1") + b"\r\n\r\n" + data)
        async with within():
            answer = await reader.read()
        writer.close()
        return Answer(answer)

    async def calling(self) -> asyncio.StreamWriter:
        """The connection of a call that has reached the group."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.router.port)
        writer.write(f"POST /mcp HTTP/1.1\r\nHost: r\r\nContent-Length: {len(CALL)}\r\n\r\n{CALL}".encode())
        await until(lambda: "tools/call" in self.stub.calls)
        return writer

    async def rpc(self, body: str, **fields: str) -> Any:
        """A message's answer."""
        return (await self.send(body, **fields)).json


class Answer:
    """What came back."""

    def __init__(self, data: bytes) -> None:
        head, _, self.body = data.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        self.status = int(status.split()[1])
        self.fields = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
        }

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@asynccontextmanager
async def world(answer: Any = None, **more: str) -> AsyncIterator[World]:
    """All of it, started, and the group known."""
    async with AsyncExitStack() as stack:
        stub, server = await stack.enter_async_context(serving(answer or plain(["status"])))
        announced = agent("glm@c0@127.0.0.1", mcp=PortService(server.port, "/mcp"))
        daemon = ScriptedDaemon(view("127.0.0.1", groups={"glm": group_view(announced)}))
        await stack.enter_async_context(daemon)
        environ = {
            "MENTAT_ANNOUNCE_PORT": "0",
            "MENTAT_DAEMONS": daemon.address,
            "PROBE_TIMEOUT_S": "0.2",
            **more,
        }
        router = Router(replace(read_settings(environ), serve_port=0))
        stack.push_async_callback(router.close)
        await router.start(asyncio.Event())
        made = World(router, stub)
        async with within():
            while "glm" not in (await made.send(method="GET", path="/status.json")).json["groups"]:
                await asyncio.sleep(0.01)
        yield made


@pytest.fixture
async def w() -> AsyncIterator[World]:
    async with world() as made:
        yield made


# -- the merge


async def test_a_group_that_serves_nothing_has_its_tools(w: World) -> None:
    listed = await w.rpc('{"jsonrpc":"2.0","id":"a","method":"tools/list"}')
    assert listed["id"] == "a"
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["serve_status", "glm__status"]
    assert (await w.rpc(CALL))["result"] == said("status")


async def test_the_status_document_is_the_routers(w: World) -> None:
    call = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"serve_status"}}'
    status = (await w.rpc(call))["result"]["structuredContent"]
    document = (await w.send(method="GET", path="/status.json")).json
    assert status.keys() == document.keys()
    assert status["groups"]["glm"]["mcp"] == document["groups"]["glm"]["mcp"]
    assert status["groups"]["glm"]["healthy"] is False


# -- the transport


async def test_an_answer_is_json(w: World) -> None:
    answer = await w.send(
        PING, Accept="application/json, text/event-stream", MCP_Protocol_Version="2025-06-18"
    )
    assert (answer.status, answer.json) == (200, PONG)
    assert answer.fields["content-type"] == "application/json"
    assert "mcp-session-id" not in answer.fields


async def test_the_path_is_taken_with_a_slash_too(w: World) -> None:
    assert (await w.send(PING, path="/mcp/")).json == PONG


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD", "PATCH"])
async def test_only_posts_are_taken(w: World, method: str) -> None:
    answer = await w.send(method=method)
    assert answer.status == 405
    assert "POST" in answer.fields["allow"]


@pytest.mark.parametrize(
    "body",
    [
        '{"jsonrpc":"2.0","method":"notifications/initialized"}',
        '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
        '{"jsonrpc":"2.0","id":1,"result":{}}',
        '[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]',
    ],
)
async def test_what_wants_no_answer_is_accepted(w: World, body: str) -> None:
    answer = await w.send(body)
    assert (answer.status, answer.body) == (202, b"")


@pytest.mark.parametrize(
    ("body", "status", "code", "id_"),
    [
        ("", 400, -32700, None),
        ("{", 400, -32700, None),
        ("[]", 400, -32600, None),
        ("5", 400, -32600, None),
        ('{"jsonrpc":"1.0","id":[7],"method":"ping"}', 400, -32600, [7]),
        ('{"jsonrpc":"2.0","id":7}', 400, -32600, 7),
        ('{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}', 200, -32602, 7),
        ('{"jsonrpc":"2.0","id":7,"method":"server/discover"}', 200, -32601, 7),
    ],
)
async def test_errors(w: World, body: str, status: int, code: int, id_: Any) -> None:
    answer = await w.send(body)
    assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (status, code, id_)


async def test_a_batch_is_answered_in_one(w: World) -> None:
    answer = await w.send(f'[{PING},5,{{"jsonrpc":"2.0","method":"n"}},{CALL.replace(":1,", ":2,")}]')
    assert answer.status == 200
    pong, invalid, called = answer.json
    assert pong == PONG
    assert invalid["error"]["code"] == -32600
    assert (called["id"], called["result"]) == (2, said("status"))


async def test_a_batch_is_worked_out_side_by_side() -> None:
    everyone = asyncio.Barrier(3)

    async def together(asked: Asked) -> bytes:
        await everyone.wait()
        return result(asked, said("x"))

    async with world(plain([], together)) as w:
        assert len(await w.rpc(f"[{CALL},{CALL},{CALL}]")) == 3


async def test_a_body_may_be_compressed(w: World) -> None:
    answer = await w.send(gzip.compress(PING.encode()), Content_Encoding="gzip")
    assert answer.json == PONG
    answer = await w.send(gzip.compress(b" " * (BODY_LIMIT + 1)), Content_Encoding="gzip")
    assert answer.status == 413
    assert (await w.send(PING, Content_Encoding="nonsense")).status == 415


async def test_a_body_is_bounded(w: World) -> None:
    large = f'{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"_meta":"{"x" * (BODY_LIMIT - 70)}"}}}}'
    assert len(large) <= BODY_LIMIT
    assert (await w.send(large)).json == PONG
    assert (await w.send(Content_Length=str(BODY_LIMIT + 1))).status == 413
    chunk = b"%x\r\n%b\r\n" % (BODY_LIMIT + 1, b"")
    reader, writer = await asyncio.open_connection("127.0.0.1", w.router.port)
    writer.write(b"POST /mcp HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk)
    async with within():
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
    writer.close()


async def test_a_body_is_let_go_while_its_call_runs() -> None:
    class Slow:
        began = asyncio.Event()

        async def answer(self, call: Call) -> bytes:
            self.began.set()
            await asyncio.Event().wait()
            raise AssertionError("unreachable")

    class Silent:
        flow: Any = None
        reserve: Any = None

    answering = Answering()
    request = Request(Head("POST", b"/mcp"), body=PING.encode())
    McpEndpoint(cast(Merge, Slow()), answering).handle(request, cast(Connection, Silent()))
    async with within():
        await Slow.began.wait()
    assert request.body == b""
    await answering.close()


# -- origins


@pytest.mark.parametrize(
    ("origin", "host", "allowed"),
    [
        (None, "box:6381", True),
        (None, None, True),
        ("http://localhost", "box:6381", True),
        ("http://localhost:3000", "box:6381", True),
        ("https://app.localhost", "box:6381", True),
        ("http://127.0.0.1:6381", "box:6381", True),
        ("http://127.8.0.1", "box:6381", True),
        ("http://[::1]:80", "box:6381", True),
        ("tauri://localhost", "box:6381", True),
        ("http://box:6381", "box:6381", True),
        ("HTTP://Box:6381", "bOX:6381", True),
        ("http://box", "box", True),
        ("http://box:80", "box", True),
        ("https://box", "box:443", True),
        ("http://[fd00::1]:6381", "[fd00::1]:6381", True),
        ("http://box:6381", "box", False),
        ("http://box", "box:6381", False),
        ("https://box", "box:80", False),
        ("http://evil.example", "box:6381", False),
        ("http://evil.example:6381", "box:6381", False),
        ("http://box.evil.example:6381", "box:6381", False),
        ("http://localhost.evil.example", "box:6381", False),
        ("http://127.0.0.1.evil.example", "box:6381", False),
        ("http://evil.example#@localhost", "box:6381", False),
        ("http://localhost@evil.example", "box:6381", False),
        ("http://evil.example\\@localhost", "box:6381", False),
        ("http://evil.example/localhost", "box:6381", False),
        ("http://128.0.0.1", "box:6381", False),
        ("http://[::2]", "box:6381", False),
        ("chrome-extension://box:6381", "box:6381", False),
        ("null", "box:6381", False),
        ("", "box:6381", False),
        ("box:6381", "box:6381", False),
        ("http://box:6381", None, False),
        ("http://box:6381", "", False),
        ("http://é", "é", True),
        ("http://127.0.0.1:6381 http://evil.example", "box:6381", False),
    ],
)
def test_origins(origin: str | None, host: str | None, allowed: bool) -> None:
    def raw(field: str | None) -> bytes | None:
        return None if field is None else field.encode("latin-1")

    assert origin_allowed(raw(origin), raw(host)) is allowed


async def test_a_page_of_another_site_is_refused(w: World) -> None:
    refused = await w.send(CALL, Origin="http://evil.example")
    assert refused.status == 403
    assert refused.json["error"]["code"] == "origin_not_allowed"
    assert not w.stub.asked
    own = f"http://127.0.0.1:{w.router.port}"
    assert (await w.send(PING, Origin=own)).json == PONG
    assert (await w.send(PING, Origin="http://box:1", Host="box:1")).json == PONG


# -- leaving and ending


async def test_a_client_that_leaves_ends_its_call() -> None:
    async with world(plain(["status"], never)) as w:
        writer = await w.calling()
        w.stub.left.clear()
        writer.close()
        async with within(1):
            await w.stub.left.wait()


async def test_a_call_holds_up_no_other() -> None:
    async with world(plain(["status"], never)) as w:
        writer = await w.calling()
        assert (await w.send(PING)).json == PONG
        writer.close()


async def test_a_call_ends_at_its_deadline() -> None:
    async with world(plain(["status"], never), MCP_TIMEOUT_S="0.3") as w:
        called = await w.rpc(CALL)
    assert called["result"]["isError"] is True
    assert "no answer within 0.3 s" in called["result"]["content"][0]["text"]


async def test_sessions_are_closed_with_the_router() -> None:
    sessions = Stateful()
    async with world(sessions) as w:
        assert (await w.rpc(CALL))["result"] == said("session-1")
        assert not sessions.ended
        await w.router.close()
        assert sessions.ended == ["session-1"]


async def test_the_router_ends_while_a_call_hangs() -> None:
    sessions = Stateful(never)
    async with world(sessions) as w:
        writer = await w.calling()
        async with within(5):
            await w.router.close()
        assert sessions.ended == ["session-1"]
        writer.close()
