"""The control port of a lite daemon, on real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.lite.conftest import Served
from tests.lite.samples import agent
from tests.support.deadlines import DEADLINE_S, until

from mentatd.link import Link, LinkLost, dial
from mentatd.lite import control as control_module
from mentatd.lite.state import AgentKey
from mentatd.wire.frames import encode
from mentatd.wire.messages import (
    AgentRegisterOk,
    Err,
    Hello,
    HelloOk,
    Message,
    Ping,
    Pong,
    Probe,
    ProbeOk,
    ServiceNote,
    Status,
    StatusOk,
    Unreadable,
)
from mentatd.wire.version import Generation

KEY = AgentKey("glm", "glm@c0@")


@asynccontextmanager
async def connected(served: Served) -> AsyncIterator[Link]:
    link = await dial("127.0.0.1", served.control_port, DEADLINE_S)
    try:
        yield link
    finally:
        await link.close()


async def ask(link: Link, message: Message) -> object:
    await link.send(message)
    return await link.receive(DEADLINE_S)


async def ended(link: Link) -> bool:
    """Whether the daemon closes or cuts the link before it says anything more."""
    try:
        return await link.receive(DEADLINE_S) is None
    except LinkLost:
        return True


async def raw(served: Served, *headers: dict[str, object]) -> bytes:
    """Send frames as they are and nothing more, and read what comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.control_port)
    writer.write(b"".join(encode(header) for header in headers))
    writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), DEADLINE_S)
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize("generation", ["A", "B"])
async def test_an_agent_of_either_protocol_registers(served: Served, generation: Generation) -> None:
    async with connected(served) as link:
        assert await ask(link, agent(generation=generation)) == AgentRegisterOk(generation, 1, "n1")
        row = served.daemon.state.agents[KEY].agent
        assert row.alive
        assert (row.node_ip, row.provider, row.services) == ("10.0.0.1", "vllm", agent().services)


async def test_both_protocols_side_by_side(served: Served) -> None:
    async with connected(served) as older, connected(served) as newer:
        await ask(older, agent("a"))
        await ask(newer, agent("b", generation="B"))
        assert {key.id for key in served.daemon.state.agents} == {"a", "b"}


async def test_pings_are_answered(served: Served) -> None:
    async with connected(served) as link:
        await ask(link, agent())
        assert await ask(link, Ping(41)) == Pong(41)


async def test_a_note_is_taken_and_cleared(served: Served) -> None:
    async with connected(served) as link:
        await ask(link, agent())
        await link.send(ServiceNote("openai", "bound to 10.0.0.1 only"))
        await ask(link, Ping(1))
        assert served.daemon.state.agents[KEY].agent.notes == {"openai": "bound to 10.0.0.1 only"}
        await link.send(ServiceNote("openai", ""))
        await ask(link, Ping(2))
        assert served.daemon.state.agents[KEY].agent.notes == {}


@pytest.mark.parametrize("cut", [False, True])
async def test_an_agent_is_lost_with_its_link(served: Served, cut: bool) -> None:
    async with connected(served) as link:
        await ask(link, agent())
        if cut:
            link.cut()
        else:
            await link.close()
        await until(lambda: not served.daemon.state.agents[KEY].agent.alive)
        assert served.daemon.state.agents[KEY].detail.gone_since_ms == 7000


async def test_a_silent_agent_is_lost(served: Served) -> None:
    async with connected(served) as link:
        await ask(link, agent())
        assert await link.receive(DEADLINE_S) is None
        assert not served.daemon.state.agents[KEY].agent.alive


async def test_a_second_link_of_one_agent_ends_the_first(served: Served) -> None:
    async with connected(served) as first, connected(served) as second:
        await ask(first, agent())
        await ask(second, agent())
        assert await ended(first)
        await ask(second, Ping(1))
        assert served.daemon.state.agents[KEY].agent.alive


async def test_what_an_agent_may_not_say_leaves_its_link_open(served: Served) -> None:
    async with connected(served) as link:
        await ask(link, agent())
        refused = await ask(link, Hello("A", 5, "x"))
        assert refused == Err(5, "Hello has no meaning here", "unknown_message")
        assert await ask(link, Ping(6)) == Pong(6)


async def test_placement_is_refused_in_words(served: Served) -> None:
    answer = await raw(
        served,
        {"t": "hello", "req": 1, "client_id": "c"},
        {"t": "pg_create", "req": 2, "bundles": [1]},
    )
    assert b'"error":"mentatd-lite does not know \'pg_create\': it places nothing"' in answer
    assert b'"code":"unknown_message"' in answer


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"t": "peer_hello", "req": 3}, [b'"req":3', b"node_id: expected text"]),
        ({"t": "nonsense", "req": 3}, [b'"t":"err"', b'"req":3', b"opens no link", b"bad_first_frame"]),
        ({"t": "ping", "req": 3}, [b"opens no link", b"bad_first_frame"]),
        ({}, [b'"t":"err"', b"bad_first_frame"]),
        ({"t": "agent_register", "req": 3, "group": "glm"}, [b'"req":3', b"agent_id", b"agent_refused"]),
        ({"t": "agent_register", "req": 3, "proto": "7.0"}, [b"7.0", b"proto_mismatch"]),
    ],
)
async def test_another_first_frame_is_refused_and_closed(
    served: Served, header: dict[str, object], words: list[bytes]
) -> None:
    answer = await raw(served, header)
    assert all(word in answer for word in words), answer
    assert served.daemon.state.agents == {}


@pytest.mark.parametrize("junk", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\x02\0\0\0\0\0\0\0[]"])
async def test_junk_is_closed_without_harm(served: Served, junk: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.control_port)
    writer.write(junk)
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(), DEADLINE_S) == b""
    writer.close()
    await writer.wait_closed()
    async with connected(served) as link:
        assert isinstance(await ask(link, agent()), AgentRegisterOk)


async def test_a_client_reads_the_status(served: Served) -> None:
    async with connected(served) as client, connected(served) as engine:
        await ask(engine, agent())
        assert await ask(client, Hello("A", 1, "cli")) == HelloOk(
            "A", 1, "n1", "10.0.0.1", "10.0.0.1:6379", "n1"
        )
        whole = await ask(client, Status(2))
        assert isinstance(whole, StatusOk)
        assert set(json.loads(whole.snapshot)["groups"]) == {"glm"}
        other = await ask(client, Status(3, "other"))
        assert isinstance(other, StatusOk)
        assert json.loads(other.snapshot)["groups"] == {}
        assert await ask(client, Ping(4)) == Pong(4)


async def test_a_probe_is_answered_and_closed(served: Served) -> None:
    async with connected(served) as link:
        assert await ask(link, Probe("A", 9, "n2")) == ProbeOk("A", 9, "n1")
        assert await link.receive(DEADLINE_S) is None


async def test_too_many_agents(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mentatd.lite.state.MAX_AGENTS", 1)
    async with connected(served) as first, connected(served) as second:
        await ask(first, agent("a"))
        assert await ask(second, agent("b")) == Err(1, "too many agents", "agent_refused")
        assert await second.receive(DEADLINE_S) is None
        assert await ask(first, Ping(1)) == Pong(1)


async def test_too_many_links(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(control_module, "MAX_LINKS", 2)
    async with AsyncExitStack() as stack:
        held = [await stack.enter_async_context(connected(served)) for _ in range(2)]
        assert [await ask(link, agent(str(n))) for n, link in enumerate(held)]
        for _ in range(2):
            more = await stack.enter_async_context(connected(served))
            assert await ended(more)
        assert capsys.readouterr().err.count("event=links_full limit=2") == 1


async def test_closing_ends_every_link(served: Served) -> None:
    async with connected(served) as link:
        await ask(link, agent())
        await served.control.close()
        assert await link.receive(DEADLINE_S) is None
    with pytest.raises(LinkLost, match="refused"):
        await dial("127.0.0.1", served.control_port, DEADLINE_S)


def test_an_unreadable_message_is_told_what_is_wrong() -> None:
    assert control_module._not_here(Unreadable("service_note", 3, "service: missing", "x")) == Err(
        3, "service: missing", "x"
    )
