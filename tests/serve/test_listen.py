"""Announcements, heard on real UDP sockets."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_network
from typing import Any

import pytest
from tests.support.clock import Clock
from tests.support.deadlines import until
from tests.support.ports import free_port

from mentatd.cluster.sources import AllowedSources, LocalNetworks
from mentatd.serve import listen as module
from mentatd.serve.listen import Listener, Once
from mentatd.serve.networks import Networks
from mentatd.wire.announcement import Announcement, write_announcement

KEY = b"k"
Heard = list[tuple[str, tuple[str, ...], int, bool]]


class Air:
    """A listener on a free port, what it passes on, and a voice."""

    def __init__(self) -> None:
        self.port = free_port()
        self.heard: Heard = []
        self.clock = Clock(time.time())
        self.networks = Networks(dict)
        self._closing: list[Callable[[], None]] = []

    def listen(
        self, *, sources: str = "127.,::1", secret: bytes | None = None, universe: str = "default"
    ) -> Listener:
        listener = Listener(
            self.networks,
            lambda *announced: self.heard.append(announced),
            port=self.port,
            sources=AllowedSources(tuple(sources.split(","))),
            secret=secret,
            universe=universe,
            wall_clock=self.clock,
        )
        listener.start()
        self._closing.append(listener.close)
        return listener

    def say(self, datagram: bytes, source: str = "127.0.0.1", to: str = "") -> None:
        family = socket.AF_INET6 if ":" in source else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.bind((source, 0))
            sock.sendto(datagram, (to or ("::1" if family == socket.AF_INET6 else "127.0.0.1"), self.port))

    def announce(self, source: str = "127.0.0.1", key: bytes | None = None, **more: Any) -> None:
        self.say(write_announcement(announcement(t=int(self.clock.now), **more), key), source)

    async def nothing_more(self, expected: Heard) -> None:
        """What was said so far leads to exactly `expected`: a marker that comes behind it is heard."""
        self.networks.current = LocalNetworks(frozenset())
        self.announce(node_id="marker", key=self._key, seq=1 << 40)
        await until(lambda: any(heard[0] == "marker" for heard in self.heard))
        assert [heard for heard in self.heard if heard[0] != "marker"] == expected

    _key: bytes | None = None

    def keyed(self) -> Air:
        self._key = KEY
        return self

    def close(self) -> None:
        for close in self._closing:
            close()


def announcement(**more: Any) -> Announcement:
    values: dict[str, Any] = {
        "generation": "A",
        "node_id": "n1",
        "http_host": "127.0.0.1",
        "http_port": 6380,
        "boot_id": "b",
        "seq": 1,
    }
    return Announcement(**(values | more))


@pytest.fixture
async def air() -> AsyncIterator[Air]:
    air = Air()
    yield air
    air.close()


async def test_an_announcement_adds_its_source_at_the_advertised_port(
    air: Air, capsys: pytest.CaptureFixture[str]
) -> None:
    air.listen()
    air.announce(http_port=7000)
    await until(lambda: air.heard)
    assert air.heard == [("n1", ("127.0.0.1",), 7000, False)]
    assert f"event=announce_listen port={air.port} verify=false" in capsys.readouterr().err


async def test_a_signed_announcement_of_either_generation_is_passed_on_as_such(
    air: Air, capsys: pytest.CaptureFixture[str]
) -> None:
    air.listen(secret=KEY)
    air.announce(key=KEY)
    air.announce(key=KEY, generation="B", seq=2)
    await until(lambda: len(air.heard) == 2)
    assert air.heard == [("n1", ("127.0.0.1",), 6380, True)] * 2
    assert "verify=true" in capsys.readouterr().err


async def test_it_is_heard_over_ipv6_too(air: Air) -> None:
    air.listen()
    air.announce("::1")
    await until(lambda: air.heard)
    assert air.heard == [("n1", ("::1",), 6380, False)]


async def test_the_first_address_on_an_own_subnet_is_watched(
    air: Air, capsys: pytest.CaptureFixture[str]
) -> None:
    air.listen(sources="127.,10.,192.168.1.")
    air.networks.current = LocalNetworks(frozenset({ip_network("192.168.1.0/24")}))
    air.announce(addrs=("10.0.0.1", "172.16.0.1", "192.168.1.5"))
    air.announce(addrs=("10.0.0.1", "172.16.0.1", "192.168.1.5"))
    await until(lambda: len(air.heard) == 2)
    assert air.heard[0] == ("n1", ("192.168.1.5", "127.0.0.1"), 6380, False)
    said = capsys.readouterr().err
    assert said.count("event=announce_preferred_addr") == 1
    assert "advertised=127.0.0.1:6380 watching=192.168.1.5:6380" in said


async def test_the_source_is_watched_where_it_is_not_what_was_advertised(
    air: Air, capsys: pytest.CaptureFixture[str]
) -> None:
    air.listen()
    air.announce(addrs=("10.0.0.1",), http_host="10.0.0.1")
    air.announce(addrs=("10.0.0.1",), http_host="10.0.0.1")
    await until(lambda: len(air.heard) == 2)
    assert air.heard[0] == ("n1", ("127.0.0.1",), 6380, False)
    said = capsys.readouterr().err
    assert said.count("event=announce_addr_mismatch") == 1
    assert "advertised=10.0.0.1:6380 watching=127.0.0.1:6380" in said


@pytest.mark.parametrize(
    ("datagram", "secret", "event"),
    [
        (b"\xff\x00", None, "announce_malformed"),
        (b"[" * 5000, None, "announce_malformed"),
        (b"{" + b" " * 9000 + b"}", None, "announce_malformed"),
        (write_announcement(announcement(universe="other"), None), None, None),
        (write_announcement(announcement(), None), KEY, "announce_rejected"),
        (write_announcement(announcement(t=int(time.time())), b"wrong"), KEY, "announce_rejected"),
        (write_announcement(announcement(), KEY), None, "announce_unverifiable"),
        (
            json.dumps({"mentat_announce": 1, "node_id": "n", "http": "a:0"}).encode(),
            None,
            "announce_malformed",
        ),
    ],
)
async def test_what_cannot_be_used_is_dropped_and_said_once_per_source(
    air: Air, capsys: pytest.CaptureFixture[str], datagram: bytes, secret: bytes | None, event: str | None
) -> None:
    air.listen(secret=secret)
    if secret:
        air.keyed()
    for source in ("127.0.0.1", "127.0.0.1", "127.0.0.2"):
        air.say(datagram, source)
    await air.nothing_more([])
    said = capsys.readouterr().err
    if event is None:
        assert "event=announce_listen " in said
        assert said.count("\n") == 1
    else:
        assert said.count(f"event={event} source=127.0.0.1") == 1
        assert said.count(f"event={event} source=127.0.0.2") == 1


async def test_a_source_that_is_not_allowed_is_said_once_with_the_prefixes_in_force(
    air: Air, capsys: pytest.CaptureFixture[str]
) -> None:
    air.listen(sources="10.100.0.,127.0.0.1")
    air.announce("127.0.0.2")
    air.announce("127.0.0.2")
    await air.nothing_more([])
    said = capsys.readouterr().err
    assert said.count("event=announce_source_not_allowed source=127.0.0.2") == 1
    assert "allowed=10.100.0.,127.0.0.1" in said


async def test_a_copy_over_a_forbidden_link_does_not_use_up_the_seq(air: Air) -> None:
    air.keyed().listen(sources="127.0.0.1", secret=KEY)
    for source in ("127.0.0.2", "127.0.0.1", "127.0.0.1"):
        air.announce(source, key=KEY, seq=7)
    await air.nothing_more([("n1", ("127.0.0.1",), 6380, True)])


async def test_an_unsigned_copy_over_a_second_link_moves_nothing(air: Air) -> None:
    air.listen()
    for source in ("127.0.0.1", "127.0.0.2", "127.0.0.1"):
        air.announce(source)
    await air.nothing_more([("n1", ("127.0.0.1",), 6380, False)] * 2)
    air.clock.now += 5
    air.announce("127.0.0.2")
    air.announce("127.0.0.2", http_port=7000)
    await until(lambda: ("n1", ("127.0.0.2",), 7000, False) in air.heard)
    assert ("n1", ("127.0.0.2",), 6380, False) in air.heard


async def test_what_is_remembered_of_nodes_is_bounded(air: Air, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SOURCES_SAID", 4)
    listener = air.listen()
    for number in range(10):
        air.announce(node_id=f"n{number}")
    await until(lambda: len(air.heard) == 10)
    assert list(listener._latest) == ["n6", "n7", "n8", "n9"]


async def test_a_flood_is_read_in_batches_with_rests_between(
    air: Air, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 4)
    monkeypatch.setattr(module, "REST_S", 60.0)
    listener = air.listen()
    for number in range(12):
        air.announce(node_id=f"n{number}")
    await until(lambda: len(air.heard) == 4)
    monkeypatch.setattr(module, "REST_S", 0.001)
    (resting,) = [sock for sock, rest in listener._sockets.items() if rest is not None]
    listener._rested(resting)
    await until(lambda: len(air.heard) == 12)


async def test_the_daemon_of_the_same_box_may_listen_on_the_port_too(air: Air) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        daemon.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        daemon.bind(("", air.port))
        listener = air.listen()
        assert len(listener._sockets) == 2


async def test_a_port_that_is_taken_is_said_and_the_router_goes_on(
    air: Air, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as other:
        other.bind(("::", air.port))
        air.listen()
    said = capsys.readouterr().err
    assert said.count(f"event=announce_listen_failed port={air.port}") == 2
    assert "in use" in said
    assert "event=announce_listen " not in said


async def test_a_box_without_ipv6_listens_on_ipv4(
    air: Air, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = module._bind

    def bind(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(97, "Address family not supported by protocol")
        return real(family, host, port)

    monkeypatch.setattr(module, "_bind", bind)
    air.listen()
    air.announce()
    await until(lambda: air.heard)
    assert "failed" not in capsys.readouterr().err


def test_the_log_is_bounded_whatever_sources_come(capsys: pytest.CaptureFixture[str]) -> None:
    once = Once(limit=3)
    for number in range(9):
        once.log("announce_rejected", f"10.0.0.{number % 5}", reason="x")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert lines[-1].endswith("event=announce_log_full sources=3")


async def test_what_became_of_each_datagram_is_counted(air: Air) -> None:
    listener = air.listen(sources="127.0.0.1,127.0.0.2")
    air.networks.current = LocalNetworks(frozenset())
    air.announce()
    air.announce(source="127.0.0.2")
    air.announce(source="127.0.0.3", node_id="n3")
    air.announce(universe="other")
    air.say(b"{")
    air.announce(key=KEY)
    await until(lambda: listener.heard.total() == 6)
    assert listener.heard == {
        "accepted": 1,
        "copy": 1,
        "source_not_allowed": 1,
        "other_universe": 1,
        "malformed": 1,
        "unverifiable": 1,
    }
