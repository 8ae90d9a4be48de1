"""Which addresses of a box are announced."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from mentatd.lite.interfaces import Interface, Interfaces, choose, default_address, read_interfaces
from mentatd.lite.settings import Pattern


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


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        ([Pattern("enp1*"), Pattern("eno1")], ["10.0.0.1", "192.168.1.11", "fd00::11"]),
        ([Pattern("e?o*")], ["192.168.1.11", "fd00::11"]),
        ([Pattern("docker0"), Pattern("lo")], ["172.17.0.1"]),
        ([Pattern("none")], []),
        (
            [Pattern("wg0"), Pattern("*")],
            ["10.9.0.1", "192.168.1.11", "10.0.0.1", "172.17.0.1", "172.18.0.1", "fd00::11"],
        ),
    ],
)
def test_the_operator_chooses_and_ranks(patterns: list[Pattern], found: list[str]) -> None:
    up = [name for name in FOUND if name != "eno2"]
    assert [each.address for each in choose(FOUND, up, patterns)] == found


def test_the_first_pattern_that_fits_gives_the_tags() -> None:
    patterns = [Pattern("en*0", ("connectx", "rdma")), Pattern("enp1s0", ("other",)), Pattern("eno1")]
    tags = {each.address: each.tags for each in choose(FOUND, FOUND, patterns)}
    assert tags == {"10.0.0.1": ("connectx", "rdma"), "192.168.1.11": (), "fd00::11": ()}


def test_a_box_with_loopback_alone() -> None:
    assert choose({"lo": FOUND["lo"]}, ["lo"]) == ()


def test_this_box() -> None:
    for interface in read_interfaces():
        assert interface.name
        assert not interface.address.startswith("127.")
    if address := default_address():
        socket.inet_aton(address)


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
