"""Listening sockets for IPv4 and IPv6 on one port."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence

from mentatd.errors import SettingsError
from mentatd.http.descriptors import BACKLOG

EVERY_ADDRESS = ("0.0.0.0", "::")

_NO_SUCH_FAMILY = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT})
_TRIES_FOR_A_FREE_PORT = 10


def listen(
    port: int, hosts: Sequence[str] = EVERY_ADDRESS, tries: int = _TRIES_FOR_A_FREE_PORT
) -> list[socket.socket]:
    """One listening socket for each of `hosts`, numeric addresses; port 0: one free port for all of them.

    A host whose family this box lacks is left out. Raises SettingsError when another program listens there, when the
    port is not permitted, and when nothing is left to listen on.
    """
    try:
        return _listen_on_all(port, hosts)
    except OSError as error:
        if port == 0 and error.errno == errno.EADDRINUSE and tries > 1:
            return listen(port, hosts, tries - 1)
        raise SettingsError(f"cannot listen on port {port}: {error.strerror}") from error


def _listen_on_all(port: int, hosts: Sequence[str]) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    lacking: OSError | None = None
    try:
        for host in hosts:
            try:
                sockets.append(_listen_on(host, port))
            except OSError as error:
                if error.errno not in _NO_SUCH_FAMILY:
                    raise
                lacking = error
            else:
                port = sockets[0].getsockname()[1]
        if lacking is not None and not sockets:
            raise lacking
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def _listen_on(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        # Restarting must not wait for TIME_WAIT; no SO_REUSEPORT, so that a second router fails here.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        # Accepted sockets inherit it: a client whose host vanished is found out although nothing is sent to it.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock
