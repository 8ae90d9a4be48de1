"""Which of this box's addresses a daemon announces, and where it broadcasts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Protocol

import psutil

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


class Entry(Protocol):
    """The part of psutil's `snicaddr` that counts here."""

    @property
    def family(self) -> int: ...
    @property
    def address(self) -> str: ...
    @property
    def broadcast(self) -> str | None: ...


def choose(found: Mapping[str, Sequence[Entry]], up: Iterable[str]) -> tuple[Interface, ...]:
    """The addresses to announce: of every interface that is up and no bridge, in the kernel's order, IPv4 first.

    Loopback and link-local addresses say nothing to others and are left out.
    """
    names = frozenset(up)
    chosen: list[Interface] = []
    for family in (socket.AF_INET, socket.AF_INET6):
        for name, entries in found.items():
            if name in names and not name.startswith(BRIDGES):
                chosen += (
                    Interface(name, entry.address, entry.broadcast or "")
                    for entry in entries
                    if entry.family == family and _reachable(entry.address)
                )
    return tuple(chosen)


def read_interfaces() -> tuple[Interface, ...]:
    """Ask the kernel, and choose. Raises OSError."""
    stats = psutil.net_if_stats()
    return choose(psutil.net_if_addrs(), (name for name, state in stats.items() if state.isup))


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
    """The address that this box would use towards the internet, or 127.0.0.1 where it has no such route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        try:
            # connecting a datagram socket sends nothing; the address is one for documentation (RFC 5737)
            sock.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(sock.getsockname()[0])


def _reachable(text: str) -> bool:
    address = ip_address(text)
    return not (address.is_loopback or address.is_link_local)
