"""The HTTP port of a lite daemon, on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest
from tests.lite.conftest import Served
from tests.lite.samples import agent
from tests.support.deadlines import DEADLINE_S, until, within
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from mentatd.http.listener import listen
from mentatd.lite import web as web_module
from mentatd.lite.daemon import MAX_BACKLOG
from mentatd.lite.state import AgentKey
from mentatd.lite.web import Web
from mentatd.wire.snapshot import read_snapshot


async def ask(served: Served, request: str) -> tuple[bytes, bytes]:
    """Head and body of the answer; the daemon is the one who closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.http_port)
    writer.write(f"{request}\r\nHost: x\r\n\r\n".encode())
    async with within():
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


def events(served: Served) -> connect:
    return connect(f"ws://127.0.0.1:{served.http_port}/events", compression=None, proxy=None)


async def heard(connection: ClientConnection) -> Any:
    async with within():
        return json.loads(await connection.recv())


async def test_health(served: Served) -> None:
    head, body = await ask(served, "GET /healthz HTTP/1.1")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nContent-Type: text/plain" in head
    assert b"\r\nConnection: close" in head
    assert body == b"ok\n"


async def test_status(served: Served) -> None:
    served.daemon.register(agent(), "127.0.0.1", 1)
    served.daemon.register(agent(group="a b"), "127.0.0.1", 2)
    head, body = await ask(served, "GET /status HTTP/1.1")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nContent-Type: application/json" in head
    assert b"\r\nConnection: close" in head
    assert b"\r\nContent-Length: %d" % len(body) in head
    assert set(read_snapshot(body).view.groups) == {"glm", "a b"}


async def test_metrics(served: Served) -> None:
    served.daemon.register(agent(gpus=2), "127.0.0.1", 1)
    own = served.daemon.subscribe(own=True)
    async with events(served) as connection:
        await heard(connection)
        head, body = await ask(served, "GET /metrics HTTP/1.1")
    served.daemon.unsubscribe(own)
    assert b"\r\nContent-Type: text/plain; version=0.0.4" in head
    assert b'\nmentat_gpus_total{group="glm"} 2\n' in body
    # a mesh link is no subscriber
    assert b"\nmentat_event_subscribers 1\n" in body


@pytest.mark.parametrize(
    ("query", "groups"),
    [
        ("?group=glm", {"glm"}),
        ("?group=a%20b", {"a b"}),
        ("?group=none", set()),
        ("?group=", {"glm", "a b"}),
        ("?x=1", {"glm", "a b"}),
    ],
)
async def test_status_of_one_group(served: Served, query: str, groups: set[str]) -> None:
    served.daemon.register(agent(), "127.0.0.1", 1)
    served.daemon.register(agent(group="a b"), "127.0.0.1", 2)
    _, body = await ask(served, f"GET /status{query} HTTP/1.1")
    assert set(read_snapshot(body).view.groups) == groups


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET /events HTTP/1.1", b"400"),
        ("GET /events?x HTTP/1.1", b"400"),
        ("GET /nothing HTTP/1.1", b"404"),
        ("GET //[ HTTP/1.1", b"404"),
        ("GET /healthz HTTP/1.1\r\nUpgrade: h2c", b"200"),
    ],
)
async def test_other_requests(served: Served, request_line: str, status: bytes) -> None:
    head, _ = await ask(served, request_line)
    assert head.split()[1] == status
    assert b"\r\nConnection: close" in head


async def test_a_request_that_is_none_harms_nobody(served: Served) -> None:
    await ask(served, "nonsense")
    head, _ = await ask(served, "GET /healthz HTTP/1.1")
    assert b"200" in head


async def test_events(served: Served) -> None:
    served.daemon.register(agent(), "127.0.0.1", 1)
    async with events(served) as connection:
        first = await heard(connection)
        assert (first["type"], first["seq"]) == ("snapshot", 1)
        assert first["data"]["groups"]["glm"]["agents"][0]["alive"]
        served.daemon.lose(AgentKey("glm", "glm@c0@"), 1)
        event = await heard(connection)
        assert (event["type"], event["seq"], event["agent_id"]) == ("agent_lost", 2, "glm@c0@")
        await connection.send("nobody listens to this")
        served.daemon.register(agent(), "127.0.0.1", 2)
        assert (await heard(connection))["type"] == "agent_register"


async def test_a_subscriber_that_leaves_is_forgotten_at_once(served: Served) -> None:
    async with events(served) as connection:
        await heard(connection)
        assert served.daemon.subscribers == 1
        connection.transport.abort()
        await until(lambda: served.daemon.subscribers == 0)


async def test_a_subscriber_that_falls_behind_is_told_to_come_again(served: Served) -> None:
    async with events(served) as connection:
        await heard(connection)
        for n in range(MAX_BACKLOG + 1):
            served.daemon.register(agent(), "127.0.0.1", n)
        with contextlib.suppress(ConnectionClosed):
            while True:
                await heard(connection)
        assert connection.close_code == 1013
    await until(lambda: served.daemon.subscribers == 0)


async def test_too_many_subscribers(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_module, "MAX_SUBSCRIBERS", 1)
    async with events(served) as connection:
        await heard(connection)
        with pytest.raises(InvalidStatus) as refused:
            await asyncio.wait_for(events(served), DEADLINE_S)
        assert refused.value.response.status_code == 503


async def test_subscribers_are_pinged(served: Served) -> None:
    web = Web(served.daemon, ping_every_s=0.01)
    sockets = listen(0, ["127.0.0.1"])
    await web.start(sockets)
    reader, writer = await asyncio.open_connection("127.0.0.1", sockets[0].getsockname()[1])
    writer.write(
        b"GET /events HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    async with within():
        await reader.readuntil(b"\r\n\r\n")
        seen = b""
        while b"\x89\x04" not in seen:  # a ping frame of four bytes
            seen += await reader.read(4096)
    writer.transport.abort()
    await web.close()


async def test_closing_ends_every_subscription(served: Served) -> None:
    async with events(served) as connection:
        await heard(connection)
        await served.web.close()
        with pytest.raises(ConnectionClosed):
            await heard(connection)
    assert served.daemon.subscribers == 0
