"""This box's own networks, for `local` in ALLOWED_SOURCES and for ranking addresses (wire.md section 3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import ip_interface
from typing import Protocol

from mentatd.cluster.sources import LocalNetworks, Network
from mentatd.log import log

REFRESH_S = 10.0
"""How often the interfaces are read: links come and go, but hundreds of them cost milliseconds to read."""


class InterfaceAddress(Protocol):
    """The part of psutil's `snicaddr` that tells a network."""

    @property
    def address(self) -> str: ...

    @property
    def netmask(self) -> str | None: ...


def networks_of(interfaces: Iterable[Sequence[InterfaceAddress]]) -> LocalNetworks:
    """The networks of these interfaces; what is no IP address with a netmask (a MAC) has none."""
    return LocalNetworks(frozenset(n for addresses in interfaces for a in addresses if (n := _network(a))))


def _network(entry: InterfaceAddress) -> Network | None:
    host = entry.address.partition("%")[0]
    if not entry.netmask:
        return None
    try:
        if ":" not in host:
            return ip_interface(f"{host}/{entry.netmask}").network
        prefix = int.from_bytes(ip_interface(entry.netmask).packed, "big").bit_count()
        return ip_interface(f"{host}/{prefix}").network
    except ValueError:
        return None


def read_interfaces() -> Mapping[str, Sequence[InterfaceAddress]]:
    """Ask the kernel. Raises OSError."""
    import psutil

    return psutil.net_if_addrs()


class Networks:
    """Keeps `current` up to date; readers never wait for the kernel."""

    def __init__(
        self, read: Callable[[], Mapping[str, Sequence[InterfaceAddress]]] = read_interfaces
    ) -> None:
        """Read the interfaces once, so that `current` is right from the start. Raises OSError."""
        self._read = read
        self.current = networks_of(read().values())

    async def run(self, changed: Callable[[], None], *, every: float = REFRESH_S) -> None:
        """Read again every `every` seconds, in a thread; call `changed` when a network came or went."""
        while True:
            await asyncio.sleep(every)
            try:
                found = networks_of((await asyncio.to_thread(self._read)).values())
            except OSError as error:
                log("interfaces_unreadable", error=error)
                continue
            if found != self.current:
                self.current = found
                changed()
