"""Mesh links on real sockets: whole daemons that join, and single peers that follow a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pytest
from tests.lite.samples import NODE, SETTINGS, agent
from tests.support.deadlines import DEADLINE_S, until, within

from mentatd.http.listener import listen
from mentatd.link import MAX_HEADER, Link, LinkLost, dial
from mentatd.lite import peers, report
from mentatd.lite.control import ControlPort
from mentatd.lite.daemon import MAX_BACKLOG, Daemon, Subscription
from mentatd.lite.mesh import Mesh
from mentatd.lite.settings import Lifetimes
from mentatd.lite.state import Address, AgentKey, PeerRow, State, move
from mentatd.tasks import Tasks
from mentatd.wire.frames import encode
from mentatd.wire.mesh import MeshNode, PeerEvent, PeerHello, PeerHelloOk, PeerStatus
from mentatd.wire.messages import Err, Message, Ping, Pong
from mentatd.wire.version import Generation

FAST = Lifetimes(peer_status_ms=20)
T = TypeVar("T")


@dataclass
class Member:
    """A daemon with its control port on 127.0.0.1."""

    daemon: Daemon
    mesh: Mesh
    port: int

    @property
    def living(self) -> set[str]:
        return {node_id for node_id, row in self.daemon.state.peers.items() if row.alive}

    @property
    def links(self) -> dict[str, int]:
        """The number of the link to each peer: another number is another connection."""
        return {node_id: row.link for node_id, row in self.daemon.state.peers.items()}


@asynccontextmanager
async def member(
    node_id: str,
    *seeds: int,
    port: int = 0,
    generation: Generation = "A",
    lifetimes: Lifetimes = FAST,
    dial_every_s: float = 0.02,
) -> AsyncIterator[Member]:
    sockets = listen(port, ["127.0.0.1"])
    port = sockets[0].getsockname()[1]
    node = replace(NODE, node_id=node_id, node_ip="127.0.0.1", control_port=port, generation=generation)
    settings = replace(SETTINGS, peers=tuple(("127.0.0.1", seed) for seed in seeds), lifetimes=lifetimes)
    daemon = Daemon(move(State(node), [Address("127.0.0.1", "lo")])[0])
    mesh = Mesh(daemon, settings, chance=lambda: 0.0, dial_every_s=dial_every_s)
    control, tasks = ControlPort(daemon, mesh), Tasks("member")
    await control.start(sockets)
    tasks.start(mesh.run(), "mesh")
    try:
        yield Member(daemon, mesh, port)
    finally:
        await control.close()
        await tasks.close()


async def heard(link: Link, kind: type[T]) -> T:
    """The next message of this kind; others are passed over."""
    async with within():
        while not isinstance(message := await link.receive(DEADLINE_S), kind):
            assert message is not None, f"closed before {kind.__name__}"
    return message


async def ended(link: Link) -> bool:
    try:
        while await link.receive(DEADLINE_S) is not None:
            pass
    except LinkLost as lost:
        return "silent" not in str(lost)
    return True


STRANGER = MeshNode("z", "127.0.0.9", "127.0.0.9:1", 6380, ("127.0.0.9",), probes=True)


@asynccontextmanager
async def peer(at: Member, node: MeshNode = STRANGER, generation: Generation = "A") -> AsyncIterator[Link]:
    """A peer that opened a link and says what the test says."""
    link = await dial("127.0.0.1", at.port, DEADLINE_S)
    try:
        await link.send(PeerHello(generation, 7, node))
        link.widen()
        yield link
    finally:
        await link.close()


@pytest.mark.parametrize("ours", ["A", "B"])
@pytest.mark.parametrize("theirs", ["A", "B"])
async def test_two_daemons_join_and_tell_each_other(ours: Generation, theirs: Generation) -> None:
    async with member("a", generation=ours) as a, member("b", a.port, generation=theirs) as b:
        a.daemon.register(agent(gpus=2), "127.0.0.1", a.daemon.new_link())
        await until(lambda: b.living == {"a"} and b.daemon.state.peers["a"].gpus == {"glm": (2, 0)})
        assert a.living == {"b"}
        row = a.daemon.state.peers["b"]
        assert (row.node.control_addr, row.node.http_port) == (f"127.0.0.1:{b.port}", 6380)
        assert row.node.addr_ifaces == {"127.0.0.1": "lo"}
        assert (row.link_ip, row.dialled, b.daemon.state.peers["a"].dialled) == ("127.0.0.1", False, True)
    assert not b.living
    assert a.daemon.state.peers["b"].gone_since_ms


async def test_one_seed_is_enough_to_find_all() -> None:
    async with (
        member("a") as a,
        member("b", a.port) as b,
        member("c", a.port) as c,
        member("d", b.port) as d,
    ):
        everybody = {"a", "b", "c", "d"}
        for each, name in ((a, "a"), (b, "b"), (c, "c"), (d, "d")):
            await until(lambda each=each, name=name: each.living == everybody - {name})  # type: ignore[misc]


async def test_an_event_reaches_every_listener_once() -> None:
    once = DEADLINE_S  # one round of dialling, so that no link takes the place of another meanwhile
    async with (
        member("a", dial_every_s=once) as a,
        member("b", a.port, dial_every_s=once) as b,
        member("c", a.port, b.port, dial_every_s=once) as c,
    ):
        await until(lambda: all(len(each.living) == 2 for each in (a, b, c)))
        listeners = [each.daemon.subscribe() for each in (a, b, c)]
        key, link = AgentKey("glm", "glm@c0@"), a.daemon.new_link()
        a.daemon.register(agent(), "127.0.0.1", link)
        a.daemon.note(key, link, "openai", "narrow")
        for listener in listeners:
            said = [await of_agents(listener) for _ in range(2)]
            assert said == [("agent_register", "a"), ("service_note", "a")]
        # whatever would come a second time has come before the next event of the one that would send it
        for each in (b, c):
            each.daemon.register(agent(), "127.0.0.1", each.daemon.new_link())
        for listener in listeners:
            said = [await of_agents(listener) for _ in range(2)]
            assert sorted(said) == [("agent_register", "b"), ("agent_register", "c")]


async def of_agents(listener: Subscription) -> tuple[str, str]:
    """Kind and node of the next event that is about an agent; that peers joined may still be on its way."""
    async with within():
        while (event := json.loads(await listener.next() or ""))["type"] == "node_join":
            pass
    return event["type"], event["node"]


async def test_two_that_dial_each_other_keep_one_link(capsys: pytest.CaptureFixture[str]) -> None:
    async with AsyncExitStack() as stack:
        a = await stack.enter_async_context(member("a", dial_every_s=DEADLINE_S))
        b = await stack.enter_async_context(member("b", a.port))
        await until(lambda: a.living == {"b"} and b.living == {"a"})
        # a dials as well, as if both had done so at the same time: the lower node id's link stays
        link = await dial("127.0.0.1", b.port, DEADLINE_S)
        await link.send(PeerHello("A", 1, MeshNode("a")))
        await heard(link, PeerStatus)
        assert not b.daemon.state.peers["a"].dialled
        # what b dials again is closed, since the other is up
        before = b.links
        await heard(link, PeerStatus)
        assert b.links == before
        await link.close()
    assert "task_crashed" not in capsys.readouterr().err


async def test_a_second_link_of_one_peer_is_answered_and_closed() -> None:
    async with member("a") as a, peer(a) as first, peer(a) as second:
        assert isinstance(await first.receive(DEADLINE_S), PeerHelloOk)
        await until(lambda: a.living == {"z"})
        assert isinstance(await second.receive(DEADLINE_S), PeerHelloOk)
        assert await second.receive(DEADLINE_S) is None
        await heard(first, PeerStatus)
        assert a.links == {"z": 1}


async def test_a_peer_that_started_again_takes_the_place_of_its_quiet_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers, "QUIET_S", -1.0)
    async with member("a") as a, peer(a) as first:
        await heard(first, PeerStatus)
        async with peer(a) as second:
            await heard(second, PeerStatus)
            assert await ended(first)
            assert a.living == {"z"}


async def test_a_lost_peer_is_found_again() -> None:
    async with member("a") as a:
        async with member("b", a.port) as b:
            await until(lambda: a.living == {"b"})
            port = b.port
        await until(lambda: not a.living)
        # it has no seed now: a dials it where it was
        async with member("b", port=port) as b:
            await until(lambda: a.living == {"b"} and b.living == {"a"})


async def test_its_own_address_among_the_seeds_is_no_peer(capsys: pytest.CaptureFixture[str]) -> None:
    async with member("a") as other:
        sockets = listen(0, ["127.0.0.1"])
        port = sockets[0].getsockname()[1]
        sockets[0].close()
        async with member("b", port, other.port, port=port) as b:
            await until(lambda: b.living == {"a"})
            await until(lambda: peers.targets(b.daemon.state, b.mesh._settings.peers, b.mesh._known) == ())
            assert set(b.daemon.state.peers) == {"a"}
    assert "peer_failed" not in capsys.readouterr().err


async def test_a_silent_peer_is_stale_and_then_cut() -> None:
    lifetimes = replace(FAST, peer_stale_ms=0, peer_dead_ms=200)
    async with member("a", lifetimes=lifetimes) as a, peer(a) as link:
        await heard(link, PeerStatus)
        a.daemon.sweep(lifetimes)
        assert a.daemon.state.peers["z"].stale
        listener = a.daemon.subscribe()
        assert await ended(link)
        async with within():
            event = json.loads(await listener.next() or "")
        assert event["type"] == "node_leave"
        assert "silent for 0.2 s" in event["reason"]


@pytest.mark.parametrize("generation", ["A", "B"])
async def test_the_status_comes_again_and_again_in_the_peers_protocol(generation: Generation) -> None:
    async with member("a") as a, peer(a, generation=generation) as link:
        ok = await heard(link, PeerHelloOk)
        assert (ok.generation, ok.req, ok.node.node_id, ok.node.probes) == (generation, 7, "a", True)
        for _ in range(3):
            status = await heard(link, PeerStatus)
            assert status.generation == generation
            assert json.loads(status.snapshot)["node_id"] == "a"
        a.daemon.register(agent(), "127.0.0.1", a.daemon.new_link())
        event = await heard(link, PeerEvent)
        assert (event.generation, event.origin) == (generation, "a")
        assert json.loads(event.event)["type"] == "agent_register"


async def test_a_large_status_is_taken() -> None:
    async with member("a") as a, member("b", a.port) as b:
        for number in range(400):
            a.daemon.register(agent(f"{number}", str(number)), "127.0.0.1", number)
        await until(lambda: len(b.daemon.state.peers.get("a", EMPTY).gpus) == 400)
        assert len(report.snapshot(a.daemon.state)) > MAX_HEADER
        assert b.living == {"a"}


EMPTY = PeerRow(STRANGER, 0, "", dialled=False, heard_s=0.0, last_seen_ms=0)


async def said(link: Link, message: Message | dict[str, Any]) -> object:
    """What comes back to it that is no status."""
    if isinstance(message, dict):
        link._writer.write(encode(message))
    else:
        await link.send(message)
    async with within():
        while isinstance(answer := await link.receive(DEADLINE_S), PeerHelloOk | PeerStatus | PeerEvent):
            pass
    return answer


async def test_what_a_peer_may_say(capsys: pytest.CaptureFixture[str]) -> None:
    async with member("a") as a, peer(a) as link:
        await heard(link, PeerStatus)
        listener = a.daemon.subscribe()
        assert await said(link, {"t": "create_actor", "req": 4}) == Err(
            4, "mentatd-lite does not know 'create_actor': it places nothing", "unknown_message"
        )
        await link.send(PeerEvent("A", "somebody else", b'{"n": 1}'))
        await link.send(PeerEvent("A", "z", b'{"n": 2}'))
        assert await said(link, Ping(5)) == Pong(5)
        async with within():
            assert await listener.next() == '{"n":2}'
        assert a.living == {"z"}


async def test_a_status_that_cannot_be_read_ends_the_link() -> None:
    async with member("a") as a, peer(a) as link:
        await heard(link, PeerStatus)
        listener = a.daemon.subscribe()
        await link.send(PeerStatus("A", b'{"proto": "7.0"}'))
        assert await ended(link)
        async with within():
            assert "its status: its proto is '7.0'" in json.loads(await listener.next() or "")["reason"]


async def test_a_peer_that_falls_behind_is_cut() -> None:
    async with member("a") as a, peer(a) as link:
        await heard(link, PeerStatus)
        for number in range(MAX_BACKLOG + 1):
            a.daemon.register(agent(), "127.0.0.1", number)
        assert await ended(link)
        await until(lambda: not a.living)


async def test_too_many_peers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(peers, "MAX_PEERS", 1)
    async with member("a") as a, peer(a) as held:
        await heard(held, PeerStatus)
        for _ in range(2):
            async with peer(a, replace(STRANGER, node_id="y")) as refused:
                assert await ended(refused)
        assert a.living == {"z"}
    assert capsys.readouterr().err.count("event=peers_full limit=1") == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (encode({"t": "err", "req": 1, "error": "not today"}), "refused: not today"),
        (encode({"t": "pong"}), "answered Pong to peer_hello"),
        (b"", "closed without an answer"),
        (b"\xff" * 8, "a header of"),
    ],
)
async def test_what_is_no_peer_is_said_once_and_asked_again(
    answer: bytes, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        await reader.read(1024)
        asked += 1
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, member("a", server.sockets[0].getsockname()[1]) as a:
        await until(lambda: asked >= 3)
        assert a.daemon.state.peers == {}
    told = capsys.readouterr().err
    assert told.count("event=peer_failed") == 1
    assert why in told


async def test_a_daemon_on_one_address_dials_from_it() -> None:
    async with member("a") as a, member("b", dial_every_s=DEADLINE_S) as b:
        settings = replace(SETTINGS, bind="127.0.0.2", peers=(("127.0.0.1", a.port),), lifetimes=FAST)
        mesh, tasks = Mesh(b.daemon, settings, dial_every_s=0.02), Tasks("second")
        tasks.start(mesh.run(), "mesh")
        await until(lambda: a.living == {"b"})
        assert a.daemon.state.peers["b"].link_ip == "127.0.0.2"
        await tasks.close()
