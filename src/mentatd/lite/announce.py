"""Tells the routers around that this daemon exists (wire.md section 2)."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass

from mentatd.lite import report
from mentatd.lite.daemon import Daemon
from mentatd.lite.interfaces import Interface
from mentatd.lite.settings import LiteSettings
from mentatd.log import log
from mentatd.wire.announcement import write_announcement
from mentatd.wire.hostport import join

_RESOLVE_S = 2.0


@dataclass(frozen=True, slots=True)
class Target:
    """Where one datagram goes."""

    host: str
    """A numeric address, or a name that is still to be resolved."""
    port: int
    source: str = ""
    """The address of this box that it comes from; empty leaves it to the kernel."""


def targets(settings: LiteSettings, interfaces: Iterable[Interface]) -> tuple[Target, ...]:
    """One for each broadcast domain of this node, then the hosts that are named.

    A daemon that listens on one address comes from that address, and broadcasts only where it is.
    """
    bind, port = settings.bind, settings.announce_port
    broadcasts = (
        Target(interface.broadcast, port, interface.address)
        for interface in interfaces
        if interface.broadcast and bind in ("", interface.address)
    )
    return (*broadcasts, *(Target(host, number, bind) for host, number in settings.announce_to))


class Announcer:
    """Sends the announcements; a target that cannot be reached harms no other."""

    def __init__(self, daemon: Daemon, settings: LiteSettings) -> None:
        self._daemon = daemon
        self._settings = settings
        self._seq = 0
        self._failing: dict[Target, str] = {}

    @property
    def off(self) -> str:
        """Why nothing is announced; empty when it is."""
        if not self._settings.announce_port:
            return "the announce port is 0"
        if self._settings.generation == "B" and self._settings.secret is None:
            return "this protocol announces only with MENTAT_SECRET"
        return ""

    async def announce(self, interfaces: Iterable[Interface]) -> None:
        """One round: the same datagram to every target."""
        if self.off:
            return
        self._seq += 1
        said = report.announcement(
            self._daemon.state, universe=self._settings.universe, seq=self._seq, now_s=int(time.time())
        )
        datagram = write_announcement(said, self._settings.secret)
        for target in targets(self._settings, interfaces):
            error = await self._send(target, datagram)
            if error and error != self._failing.get(target):
                log("announce_failed", to=join(target.host, target.port), error=error)
            self._failing[target] = error

    async def _send(self, target: Target, datagram: bytes) -> str:
        """Send to one target; what went wrong, or an empty text."""
        try:
            async with asyncio.timeout(_RESOLVE_S):
                found = await asyncio.get_running_loop().getaddrinfo(
                    target.host, target.port, type=socket.SOCK_DGRAM
                )
            family, _, _, _, address = found[0]
            with socket.socket(family, socket.SOCK_DGRAM) as sock:
                sock.setblocking(False)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
                if target.source and (":" in target.source) == (family == socket.AF_INET6):
                    sock.bind((target.source, 0))
                sock.sendto(datagram, address)
        except OSError as error:  # a TimeoutError too
            return error.strerror or str(error) or "its name is not resolved in time"
        return ""
