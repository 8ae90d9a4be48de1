"""Listening sockets, with and without IPv6, and on a port that is taken."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator

import pytest

from mentatd.errors import SettingsError
from mentatd.http import listener
from mentatd.http.listener import listen


@contextlib.contextmanager
def listening(port: int, hosts: tuple[str, ...]) -> Iterator[list[socket.socket]]:
    sockets = listen(port, hosts)
    try:
        yield sockets
    finally:
        for sock in sockets:
            sock.close()


def _without_ipv6(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    real = socket.socket

    def create(family: int, kind: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(code, "no IPv6 here")
        return real(family, kind)

    monkeypatch.setattr(socket, "socket", create)


def test_one_free_port_for_both_families() -> None:
    with listening(0, ("127.0.0.1", "::1")) as sockets:
        assert {sock.family for sock in sockets} <= {socket.AF_INET, socket.AF_INET6}
        assert len({sock.getsockname()[1] for sock in sockets}) == 1
        for sock in sockets:
            if sock.family == socket.AF_INET6:
                # IPv4 clients have their own socket, so that none comes as `::ffff:` and the two never conflict.
                assert sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 1


def test_a_box_without_ipv6_is_served_over_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    _without_ipv6(monkeypatch, errno.EAFNOSUPPORT)
    with listening(0, ("127.0.0.1", "::1")) as sockets:
        assert [sock.family for sock in sockets] == [socket.AF_INET]


def test_nothing_left_to_listen_on_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    _without_ipv6(monkeypatch, errno.EAFNOSUPPORT)
    with pytest.raises(SettingsError, match="no IPv6 here"):
        listen(0, ("::1",))


def test_any_other_failure_is_an_error_and_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    _without_ipv6(monkeypatch, errno.EMFILE)
    with pytest.raises(SettingsError):
        listen(0, ("127.0.0.1", "::1"))


def test_a_second_program_on_the_port_fails() -> None:
    with listening(0, ("127.0.0.1",)) as sockets:
        port = sockets[0].getsockname()[1]
        with pytest.raises(SettingsError, match=f"port {port}: .*in use"):
            listen(port, ("127.0.0.1",))


def test_a_port_that_is_half_taken_is_tried_again_only_when_any_will_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries = []

    def taken(port: int, hosts: tuple[str, ...]) -> list[socket.socket]:
        tries.append(port)
        raise OSError(errno.EADDRINUSE, "in use")

    monkeypatch.setattr(listener, "_listen_on_all", taken)
    with pytest.raises(SettingsError):
        listen(0)
    assert len(tries) == 10
    with pytest.raises(SettingsError):
        listen(6381)
    assert len(tries) == 11
