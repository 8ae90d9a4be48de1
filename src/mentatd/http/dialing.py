"""What belongs to one attempt to connect: the addresses of a host, what the kernel watches, what came back."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection, Mapping

from mentatd.origin import Origin

_KEEPALIVE_IDLE_S, _KEEPALIVE_INTERVAL_S, _KEEPALIVE_PROBES = 30, 10, 3
"""The kernel asks whether an engine that says nothing is still there, and reports after a minute that it is not: a
machine that lost its power or its cable closes nothing."""


async def addresses_of(origin: Origin) -> Collection[str]:
    """The addresses of the host, each once, best first. Raises OSError, ValueError and OverflowError."""
    if _is_literal(origin.host):
        return (origin.host,)
    # resolved here, because uvloop's own look-up would outlive a cancelled connect and then complain
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    return dict.fromkeys(str(entry[4][0]) for entry in found)


def _is_literal(host: str) -> bool:
    """Whether it is an address without a scope: a look-up would wait for a thread, perhaps behind a slow name."""
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    except (OSError, ValueError):
        return False
    return True


def keep_alive(sock: socket.socket) -> None:
    """Let the kernel find out that an idle connection leads nowhere any more."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_PROBES)


def summary(failures: Mapping[str, str]) -> str:
    """What came back from each address, said once where it was the same."""
    texts = set(failures.values())
    if len(texts) == 1:
        return texts.pop()
    return "; ".join(f"{address}: {text}" for address, text in failures.items()) or "the name has no address"
