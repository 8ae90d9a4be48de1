"""This box's own networks, from what the kernel lists."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network

import pytest
from tests.support.deadlines import within

from mentatd.serve.networks import InterfaceAddress, Networks, networks_of, read_interfaces
from mentatd.tasks import Tasks


@dataclass(frozen=True)
class Row:
    address: str
    netmask: str | None


Listing = Mapping[str, Sequence[InterfaceAddress]]

LO = [Row("127.0.0.1", "255.0.0.0"), Row("::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")]
ETH = [
    Row("192.168.1.7", "255.255.255.0"),
    Row("fd00:1::7", "ffff:ffff:ffff:ffff::"),
    Row("fe80::1%eth0", "ffff:ffff:ffff:ffff::"),
    Row("02:fc:00:00:00:01", None),
]


def test_each_address_with_a_netmask_gives_its_network() -> None:
    networks = ["127.0.0.0/8", "::1/128", "192.168.1.0/24", "fd00:1::/64", "fe80::/64"]
    assert networks_of([LO, ETH]).networks == {ip_network(text) for text in networks}


@pytest.mark.parametrize(
    "row",
    [
        Row("02:fc:00:00:00:01", "ff:ff"),
        Row("10.0.0.1", "never"),
        Row("fd00::1", "never"),
        Row("", "255.0.0.0"),
        Row("10.0.0.1", None),
        Row("10.0.0.1", ""),
    ],
)
def test_what_is_no_address_with_a_netmask_is_passed_over(row: Row) -> None:
    assert networks_of([[row], [Row("10.0.0.1", "255.255.255.255")]]).networks == {ip_network("10.0.0.1/32")}


def test_the_kernel_lists_loopback() -> None:
    assert "127.0.0.1" in networks_of(read_interfaces().values())


async def test_a_link_that_comes_is_known_after_the_next_reading_and_a_failed_one_changes_nothing() -> None:
    answers: list[Listing | OSError] = [
        {"lo": LO},
        {"lo": LO},
        OSError("no netlink"),
        {"lo": LO, "eth0": ETH},
    ]
    changed = asyncio.Event()

    def read() -> Listing:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, OSError):
            raise answer
        return answer

    networks = Networks(read)
    assert "192.168.1.9" not in networks.current
    tasks = Tasks("test")
    tasks.start(networks.run(changed.set, every=0.001), "networks")
    async with within():
        await changed.wait()
    assert "192.168.1.9" in networks.current
    await tasks.close()
