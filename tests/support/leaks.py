"""What a test left behind: tasks that still run, sockets that are still open."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Container, Mapping
from typing import Any

_SETTLE_S = 2.0
"""A transport that was told to close needs a few turns of the loop, a stopped server a moment."""


Ends = tuple[object, object]
"""Where a socket is bound, and what it is connected to, if anything."""


def open_sockets() -> dict[str, Ends]:
    """The internet sockets of this process by the kernel's name (`socket:[inode]`).

    Others are left out: an event loop makes a pair of its own for signals.
    """
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink(f"/proc/self/fd/{fd}")
            if not name.startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(fd))) as sock:
                if sock.family in (socket.AF_INET, socket.AF_INET6):
                    found[name] = (sock.getsockname(), _peer(sock))
        except OSError:  # closed meanwhile, such as the listing's own
            continue
    return found


def leaked_sockets(before: Mapping[str, Ends]) -> list[str]:
    """Sockets that were opened since `before`; those that a server of `before` accepted are that server's."""
    standing = {local for local, _ in before.values()}
    return [
        f"open: {local} -> {peer}"
        for name, (local, peer) in open_sockets().items()
        if name not in before and local not in standing
    ]


async def settle(leaks: Callable[[], list[str]]) -> list[str]:
    """Give what is closing the turns that it needs, then tell what is left."""
    end = time.monotonic() + _SETTLE_S
    while (left := leaks()) and time.monotonic() < end:
        await asyncio.sleep(0.005)
    return left


def leaked_tasks(here: asyncio.Task[Any] | None, before: Container[asyncio.Task[Any]]) -> list[str]:
    """Tasks of this loop, other than `here`, that were started since `before` and have not ended."""
    return [f"running: {task!r}" for task in asyncio.all_tasks() if task is not here and task not in before]


def _peer(sock: socket.socket) -> object:
    try:
        return sock.getpeername()
    except OSError:
        return None
