"""Ports for processes that have to be told one; a server inside a test binds port 0 instead."""

from __future__ import annotations

import fcntl
import itertools
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

# Below the kernel's ephemeral range (32768 and up), so that no outgoing connection and no bind to port 0 of a test
# that runs beside this one can take the port between its choice and its use.
_FIRST, _LAST = 20000, 32000
_start = random.SystemRandom().randrange(_FIRST, _LAST)
_turn = itertools.count()
# A lock on its byte of this file makes a port this process's until its end: another that runs tests beside it would
# find the port free for as long as the server that it was chosen for has not started.
_claims = os.open(
    Path(tempfile.gettempdir(), f"mentatd-test-ports-{os.getuid()}"), os.O_RDWR | os.O_CREAT, 0o600
)


def free_port() -> int:
    """A port that nothing has bound, TCP or UDP; never the same twice, in this process or in those beside it."""
    for step in _turn:
        port = _FIRST + (_start - _FIRST + step) % (_LAST - _FIRST)
        if _is_ours(port) and _is_free(port, socket.SOCK_STREAM) and _is_free(port, socket.SOCK_DGRAM):
            return port
    raise AssertionError("unreachable")


def _is_ours(port: int) -> bool:
    try:
        fcntl.lockf(_claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _is_free(port: int, kind: socket.SocketKind) -> bool:
    with socket.socket(socket.AF_INET, kind) as sock:
        try:
            sock.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True


@contextmanager
def full_backlog() -> Iterator[int]:
    """A port of loopback where a connect waits for ever."""
    with socket.socket() as server, ExitStack() as stack:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield server.getsockname()[1]
