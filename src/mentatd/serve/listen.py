"""Daemons' announcements, heard on UDP: each is a hint that adds one address to watch (wire.md section 2)."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections import Counter
from collections.abc import Callable

from mentatd.cluster.addresses import announced_address
from mentatd.cluster.sources import AllowedSources, parse_address
from mentatd.cluster.watchset import authority
from mentatd.log import log
from mentatd.serve.networks import Networks
from mentatd.wire.announcement import Announcement, Dropped, ReplayWindow, judge

DATAGRAM_LIMIT = 8192
"""Bytes; the rest of a longer one is cut off, which makes it malformed. A daemon's own limit is 1400."""
BATCH = 16
REST_S = 0.01
"""At most `BATCH` datagrams in one turn of the loop, then a rest: in a flood the kernel drops what is too
much, and requests go on. A cluster of a hundred daemons sends some forty in a second."""
SOURCES_SAID = 1024
"""Log lines about sources, over the life of the process."""
COPY_S = 2.0
"""The same unsigned announcement from another source within this time came over the daemon's second link."""

Announced = Callable[[str, tuple[str, ...], int, bool], None]
"""Takes node_id, the hosts to watch, best first, their port, and whether it was signed."""


class Once:
    """Writes one log line for each event and source, up to a bound, so that no flood fills the log."""

    def __init__(self, limit: int = SOURCES_SAID) -> None:
        self._limit = limit
        self._said: set[tuple[str, str]] = set()

    def log(self, event: str, source: str, **fields: object) -> None:
        """Write the line if this event was not yet said of this source."""
        if (event, source) in self._said or len(self._said) >= self._limit:
            return
        self._said.add((event, source))
        log(event, source=source, **fields)
        if len(self._said) == self._limit:
            log("announce_log_full", sources=self._limit)


class Listener:
    """Listens on one UDP port, IPv4 and IPv6, beside the daemon of the same box."""

    def __init__(
        self,
        networks: Networks,
        announced: Announced,
        *,
        port: int,
        sources: AllowedSources,
        secret: bytes | None,
        universe: str,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`wall_clock` gives Unix seconds, against which a signed announcement's own time is judged."""
        self.heard: Counter[str] = Counter()
        """Datagrams so far: `accepted`, `copy` (over a second link), or why they were not acted on."""
        self._networks = networks
        self._announced = announced
        self._port = port
        self._sources = sources
        self._secret = secret
        self._universe = universe
        self._wall_clock = wall_clock
        self._replay = ReplayWindow()
        self._once = Once()
        self._latest: dict[str, tuple[Announcement, str, float]] = {}
        self._sockets: dict[socket.socket, asyncio.TimerHandle | None] = {}

    def start(self) -> None:
        """Open the sockets. A port that cannot be had is said in the log and does no other harm."""
        for family, host in ((socket.AF_INET, ""), (socket.AF_INET6, "::")):
            try:
                sock = _bind(family, host, self._port)
            except OSError as error:
                if family == socket.AF_INET or error.errno == errno.EADDRINUSE:
                    log("announce_listen_failed", port=self._port, error=error)
                continue  # a box without IPv6 has nothing to hear there
            self._sockets[sock] = None
            asyncio.get_running_loop().add_reader(sock, self._readable, sock)
        if self._sockets:
            log("announce_listen", port=self._port, verify=self._secret is not None)

    def close(self) -> None:
        """Hear no more."""
        for sock, resting in self._sockets.items():
            if resting is None:
                asyncio.get_running_loop().remove_reader(sock)
            else:
                resting.cancel()
            sock.close()
        self._sockets.clear()

    def _readable(self, sock: socket.socket) -> None:
        for _ in range(BATCH):
            try:
                datagram, peer = sock.recvfrom(DATAGRAM_LIMIT)
            except OSError:  # nothing more to read; an error that is left on the socket is gone with this
                return
            self._received(datagram, str(parse_address(peer[0])))
        loop = asyncio.get_running_loop()
        loop.remove_reader(sock)
        self._sockets[sock] = loop.call_later(REST_S, self._rested, sock)

    def _rested(self, sock: socket.socket) -> None:
        self._sockets[sock] = None
        asyncio.get_running_loop().add_reader(sock, self._readable, sock)

    def _received(self, datagram: bytes, source: str) -> None:
        """All five steps of wire.md section 2, in its order."""
        heard = judge(
            datagram,
            key=self._secret,
            universe=self._universe,
            now_unix=self._wall_clock(),
            replay=self._replay,
        )
        if isinstance(heard, Dropped):
            self.heard[heard.reason] += 1
            if heard.event is not None:
                self._once.log(heard.event, source, reason=heard.detail)
            return
        local = self._networks.current
        if not self._sources.allows(source, local):
            self.heard["source_not_allowed"] += 1
            allowed = ",".join(self._sources.entries)
            self._once.log("announce_source_not_allowed", source, allowed=allowed)
            return
        self._replay.accept(heard)
        if self._is_copy(heard, source):
            self.heard["copy"] += 1
            return
        self.heard["accepted"] += 1
        choice = announced_address(heard.addrs, source, local=local, sources=self._sources)
        if choice.host != str(parse_address(heard.http_host)):
            self._once.log(
                "announce_preferred_addr" if choice.advertised else "announce_addr_mismatch",
                source,
                node=heard.node_id,
                advertised=authority(heard.http_host, heard.http_port),
                watching=authority(choice.host, heard.http_port),
            )
        self._announced(heard.node_id, (choice.host, *choice.others), heard.http_port, heard.signed)

    def _is_copy(self, heard: Announcement, source: str) -> bool:
        """Whether this came over a second link of the daemon: following each copy's source would move the
        watch to and fro. A signed copy is a replay, and never comes so far."""
        now = self._wall_clock()
        latest = self._latest.pop(heard.node_id, None)
        if (
            latest is not None
            and latest[0] == heard
            and latest[1] != source
            and 0 <= now - latest[2] < COPY_S
        ):
            self._latest[heard.node_id] = latest
            return True
        self._latest[heard.node_id] = (heard, source, now)
        if len(self._latest) > SOURCES_SAID:
            del self._latest[next(iter(self._latest))]
        return False


def _bind(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    """Raises OSError."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.setblocking(False)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock
