"""The last moments of a connection, played."""

from __future__ import annotations

import math

from tests.http.played import PlayedTransport

from mentatd.http.limits import Limits
from mentatd.http.lingering import Lingering

LIMITS = Limits(client_timeout_s=60, linger_s=2)


def test_what_arrives_is_read_away_for_a_while() -> None:
    transport = PlayedTransport("", 0)
    transport.pause_reading()
    lingering = Lingering(transport, LIMITS, 100.0, reset=False)
    assert transport.asked == ["eof"]
    assert transport.reading
    assert lingering.deadline == 102.0
    lingering.look(102.0)
    assert transport.asked == ["eof", "abort"]
    assert lingering.deadline == math.inf


def test_a_slow_reader_has_time_while_it_reads() -> None:
    transport = PlayedTransport("", 0)
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
    transport = PlayedTransport("", 0)
    transport.close()
    Lingering(transport, LIMITS, 100.0, reset=False)
    assert transport.asked == ["close"]
