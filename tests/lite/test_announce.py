"""Announcements, as a router's socket receives them."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.lite.samples import SETTINGS, state
from tests.support.deadlines import DEADLINE_S

from mentatd.lite.announce import Announcer, Target, targets
from mentatd.lite.daemon import Daemon
from mentatd.lite.interfaces import Interface
from mentatd.wire.announcement import Announcement, Dropped, ReplayWindow, judge

WIRED = (
    Interface("eth0", "10.0.0.1", "10.0.0.255"),
    Interface("wg0", "10.9.0.1", ""),
    Interface("eth1", "192.168.1.11", "192.168.1.255"),
)


@pytest.mark.parametrize(
    ("bind", "named", "found"),
    [
        ("", (), [("10.0.0.255", 6382, "10.0.0.1"), ("192.168.1.255", 6382, "192.168.1.11")]),
        ("10.0.0.1", (), [("10.0.0.255", 6382, "10.0.0.1")]),
        ("127.0.0.2", (("127.0.0.1", 7000),), [("127.0.0.1", 7000, "127.0.0.2")]),
        (
            "",
            (("router", 7000),),
            [("10.0.0.255", 6382, "10.0.0.1"), ("192.168.1.255", 6382, "192.168.1.11"), ("router", 7000, "")],
        ),
    ],
)
def test_where_to(bind: str, named: tuple[tuple[str, int], ...], found: list[tuple[str, int, str]]) -> None:
    settings = replace(SETTINGS, bind=bind, announce_to=named)
    assert targets(settings, WIRED) == tuple(Target(*each) for each in found)


@pytest.fixture
def router() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock


async def receive(router: socket.socket) -> tuple[bytes, tuple[str, int]]:
    router.settimeout(DEADLINE_S)
    return await asyncio.to_thread(router.recvfrom, 2048)


@pytest.mark.parametrize("key", [None, b"k"])
async def test_a_named_router_hears_it(router: socket.socket, key: bytes | None) -> None:
    settings = replace(
        SETTINGS, bind="127.0.0.2", announce_to=(router.getsockname(),), universe="lab", secret=key
    )
    announcer = Announcer(Daemon(state()), settings)
    replay = ReplayWindow()
    for _ in range(2):
        await announcer.announce(())
        datagram, source = await receive(router)
        assert source[0] == "127.0.0.2"
        now = time.time()
        heard = judge(datagram, key=key, universe="lab", now_unix=now, replay=replay)
        assert isinstance(heard, Announcement), heard
        assert (heard.node_id, heard.http_port) == ("n1", 6380)
        replay.accept(heard)  # the next one has a higher seq, or it would be a replay
    elsewhere = judge(datagram, key=key, universe="other", now_unix=now, replay=replay)
    assert isinstance(elsewhere, Dropped)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"announce_port": 0}, "the announce port is 0"),
        ({"generation": "B"}, "this protocol announces only with MENTAT_SECRET"),
    ],
)
async def test_off(router: socket.socket, changed: dict[str, object], why: str) -> None:
    settings = replace(SETTINGS, announce_to=(router.getsockname(),), **changed)  # type: ignore[arg-type]
    announcer = Announcer(Daemon(state("B")), settings)
    assert announcer.off == why
    await announcer.announce(())
    router.setblocking(False)
    with pytest.raises(BlockingIOError):
        router.recv(1)


async def test_the_newer_protocol_is_always_signed(router: socket.socket) -> None:
    settings = replace(SETTINGS, generation="B", secret=b"k", announce_to=(router.getsockname(),))
    announcer = Announcer(Daemon(state("B")), settings)
    assert announcer.off == ""
    await announcer.announce(())
    datagram, _ = await receive(router)
    assert b'"proto":"0.99"' in datagram


async def test_a_target_that_fails_is_said_once_and_harms_no_other(
    router: socket.socket, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = ("host.invalid", 6382)
    settings = replace(SETTINGS, bind="", announce_to=(lost, router.getsockname()))
    announcer = Announcer(Daemon(state()), settings)
    for _ in range(3):
        await announcer.announce(())
        await receive(router)
    told = capsys.readouterr().err
    assert told.count("event=announce_failed to=host.invalid:6382") == 1
    assert told.count("\n") == 1


async def test_a_broadcast_is_permitted_on_its_socket(router: socket.socket) -> None:
    """Loopback's broadcast address reaches sockets on the wildcard address of this box."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as everywhere:
        everywhere.bind(("0.0.0.0", 0))
        settings = replace(SETTINGS, bind="127.0.0.3", announce_port=everywhere.getsockname()[1])
        loopback = Interface("lo", "127.0.0.3", "127.255.255.255")
        await Announcer(Daemon(state()), settings).announce([loopback])
        _, source = await receive(everywhere)
        assert source[0] == "127.0.0.3"
