"""Which addresses of a box are announced."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from mentatd.lite.interfaces import Interface, Interfaces, choose, default_address, read_interfaces


@dataclass
class Entry:
    address: str
    broadcast: str | None = None

    @property
    def family(self) -> int:
        if self.address.count(":") == 5 and len(self.address) == 17:
            return socket.AF_PACKET
        return socket.AF_INET6 if ":" in self.address else socket.AF_INET


FOUND = {
    "lo": [Entry("127.0.0.1"), Entry("::1")],
    "eno1": [
        Entry("192.168.1.11", "192.168.1.255"),
        Entry("fd00::11"),
        Entry("fe80::11%eno1"),
        Entry("aa:bb:cc:dd:ee:ff"),
    ],
    "enp1s0": [Entry("10.0.0.1", "10.0.0.255")],
    "wg0": [Entry("10.9.0.1")],
    "eno2": [Entry("192.168.2.11", "192.168.2.255")],
    "docker0": [Entry("172.17.0.1", "172.17.255.255")],
    "br-12ab": [Entry("172.18.0.1", "172.18.255.255")],
}


def test_what_is_chosen() -> None:
    up = [name for name in FOUND if name != "eno2"]
    assert choose(FOUND, up) == (
        Interface("eno1", "192.168.1.11", "192.168.1.255"),
        Interface("enp1s0", "10.0.0.1", "10.0.0.255"),
        Interface("wg0", "10.9.0.1", ""),
        Interface("eno1", "fd00::11", ""),
    )


def test_a_box_with_loopback_alone() -> None:
    assert choose({"lo": FOUND["lo"]}, ["lo"]) == ()


def test_this_box() -> None:
    for interface in read_interfaces():
        assert interface.name
        assert not interface.address.startswith("127.")
    socket.inet_aton(default_address())


async def test_what_was_read_last_stays(capsys: pytest.CaptureFixture[str]) -> None:
    wired = (Interface("eth0", "10.0.0.1", ""),)

    def answers() -> Iterator[tuple[Interface, ...] | OSError]:
        yield from (
            OSError("no netlink"),
            wired,
            OSError("no netlink"),
            OSError("no netlink"),
            OSError("busy"),
        )

    told = answers()

    def read() -> tuple[Interface, ...]:
        if isinstance(answer := next(told), OSError):
            raise answer
        return answer

    interfaces = Interfaces(read)
    seen = []
    for _ in range(5):
        await interfaces.refresh()
        seen.append(interfaces.current)
    assert seen == [(), wired, wired, wired, wired]
    assert capsys.readouterr().err.count("event=interfaces_unreadable") == 3
