"""Which of this box's addresses a daemon announces, and where it broadcasts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import ip_address
from typing import Protocol

import psutil

from mentatd.lite.settings import Pattern
from mentatd.log import log

BRIDGES = ("docker", "br-", "veth", "virbr", "cni", "flannel", "cali", "podman", "lxc", "lxd")
"""How the interfaces of container and machine bridges are called: nobody outside this box reaches them."""


@dataclass(frozen=True, slots=True)
class Interface:
    """One address of this box that others can reach."""

    name: str
    address: str
    broadcast: str
    """Where a datagram to all of its network goes; empty without one (IPv6, tunnels)."""
    tags: tuple[str, ...] = ()
    """The operator's, such as `rdma`."""


class Entry(Protocol):
    """The part of psutil's `snicaddr` that counts here."""

    @property
    def family(self) -> int: ...
    @property
    def address(self) -> str: ...
    @property
    def broadcast(self) -> str | None: ...


def choose(
    found: Mapping[str, Sequence[Entry]], up: Iterable[str], patterns: Sequence[Pattern] = ()
) -> tuple[Interface, ...]:
    """The addresses to announce, most preferred first: of the interfaces that are up, in the kernel's order.

    `patterns` choose among them and rank them: those of the first pattern come first, each with its tags. Without
    any, all are announced but bridges. IPv4 goes before IPv6 of one rank. Loopback and link-local addresses say
    nothing to others and are left out.
    """
    alive = frozenset(up)
    names = [name for name in found if name in alive]
    ranks: dict[str, Pattern] = {}
    for pattern in patterns:
        ranks |= {name: pattern for name in names if name not in ranks and fnmatchcase(name, pattern.name)}
    if not patterns:
        every = Pattern("*")
        ranks = {name: every for name in names if not name.startswith(BRIDGES)}
    return tuple(
        Interface(name, entry.address, entry.broadcast or "", pattern.tags)
        for pattern in dict.fromkeys(ranks.values())
        for family in (socket.AF_INET, socket.AF_INET6)
        for name in names
        if ranks.get(name) is pattern
        for entry in found[name]
        if entry.family == family and _reachable(entry.address)
    )


def read_interfaces(patterns: Sequence[Pattern] = ()) -> tuple[Interface, ...]:
    """Ask the kernel, and choose. Raises OSError."""
    stats = psutil.net_if_stats()
    return choose(psutil.net_if_addrs(), [name for name, state in stats.items() if state.isup], patterns)


class Interfaces:
    """Keeps the interfaces as the kernel last told them."""

    def __init__(self, read: Callable[[], tuple[Interface, ...]] = read_interfaces) -> None:
        """Nothing is read yet; `read` is called in a thread."""
        self._read = read
        self._error = ""
        self.current: tuple[Interface, ...] = ()

    async def refresh(self) -> None:
        """Ask again; where the kernel does not tell, `current` stays, and the reason is logged once."""
        try:
            self.current = await asyncio.to_thread(self._read)
            self._error = ""
        except OSError as error:
            if str(error) != self._error:
                self._error = str(error)
                log("interfaces_unreadable", error=error)


def default_address() -> str:
    """The address that this box would use towards the internet; empty where it has no such route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        try:
            # connecting a datagram socket sends nothing; the address is one for documentation (RFC 5737)
            sock.connect(("192.0.2.1", 9))
        except OSError:
            return ""
        return str(sock.getsockname()[0])


def _reachable(text: str) -> bool:
    address = ip_address(text)
    return not (address.is_loopback or address.is_link_local)
