"""The last moments of a connection, played."""

from __future__ import annotations

import contextlib
import math
import socket
from collections.abc import Iterator

import pytest
from tests.http.played import PlayedTransport
from tests.support.deadlines import wait_until

from mentatd.http.limits import Limits
from mentatd.http.lingering import Lingering

LIMITS = Limits(client_timeout_s=60, linger_s=2)


def test_what_arrives_is_read_away_for_a_while() -> None:
    transport = PlayedTransport()
    transport.pause_reading()
    lingering = Lingering(transport, LIMITS, 100.0, reset=False)
    assert transport.asked == ["eof"]
    assert transport.reading
    assert lingering.deadline == 102.0
    lingering.look(102.0)
    assert transport.asked == ["eof", "abort"]
    assert lingering.deadline == math.inf


def test_a_slow_reader_has_time_while_it_reads() -> None:
    transport = PlayedTransport()
    lingering = Lingering(transport, LIMITS, 100.0, reset=False)
    transport.unsent = 5000
    lingering.look(102.0)
    assert lingering.deadline == 162.0
    transport.unsent = 4000
    lingering.look(162.0)
    assert lingering.deadline == 222.0
    assert transport.asked == ["eof"]
    lingering.look(222.0)
    assert transport.asked == ["eof", "abort"]


def test_a_transport_that_closes_already_is_not_shut() -> None:
    transport = PlayedTransport()
    transport.close()
    Lingering(transport, LIMITS, 100.0, reset=False)
    assert transport.asked == ["close"]


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        client = stack.enter_context(socket.create_connection(listener.getsockname()))
        server = stack.enter_context(listener.accept()[0])
        yield server, client


def test_a_reset_waits_until_the_client_has_what_was_written(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    server, client = pair
    server.setblocking(False)
    sent = server.send(bytes(64 << 20))
    transport = PlayedTransport(sock=server)
    lingering = Lingering(transport, LIMITS, 100.0, reset=True)
    lingering.look(100.5)
    assert transport.asked == []
    assert lingering.deadline <= 100.5
    while sent:
        sent -= len(client.recv(1 << 20))
    transport.unsent = 1
    lingering.look(101.0)
    assert transport.asked == []
    transport.unsent = 0

    def aborted() -> bool:
        lingering.look(101.0)
        return transport.asked == ["abort"]

    wait_until(aborted)
    server.close()
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_a_reset_does_not_wait_for_ever(pair: tuple[socket.socket, socket.socket]) -> None:
    server, _ = pair
    transport = PlayedTransport(sock=server)
    transport.unsent = 1
    lingering = Lingering(transport, LIMITS, 100.0, reset=True)
    lingering.look(159.9)
    assert transport.asked == []
    lingering.look(160.0)
    assert transport.asked == ["abort"]
