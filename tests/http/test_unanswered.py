"""Peers that vanish with bytes on their way to them."""

from __future__ import annotations

import asyncio
import socket

from mentatd.http.unanswered import PATIENCE_S, Unanswered, repeats


class Line:
    def __init__(self, repeats: int) -> None:
        self.repeats = repeats


def test_a_peer_is_gone_after_a_while_without_an_answer() -> None:
    heard, unheard = Line(0), Line(1)
    unanswered: Unanswered[Line] = Unanswered()
    assert unanswered.look([heard, unheard], 10.0) == []
    unheard.repeats = 7
    assert unanswered.look([heard, unheard], 9.9 + PATIENCE_S) == []
    assert unanswered.look([heard, unheard], 10.0 + PATIENCE_S) == [unheard]


def test_any_answer_begins_the_time_anew() -> None:
    line = Line(3)
    unanswered: Unanswered[Line] = Unanswered()
    unanswered.look([line], 0.0)
    line.repeats = 0
    unanswered.look([line], 50.0)
    line.repeats = 1
    assert unanswered.look([line], 51.0) == []
    assert unanswered.look([line], 50.0 + PATIENCE_S) == []
    assert unanswered.look([line], 51.0 + PATIENCE_S) == [line]


def test_nothing_is_remembered_of_one_that_is_closed() -> None:
    line = Line(3)
    unanswered: Unanswered[Line] = Unanswered()
    unanswered.look([line], 0.0)
    unanswered.look([], 1.0)
    assert unanswered.look([line], PATIENCE_S) == []


async def test_a_peer_that_is_there_is_not_repeated_to() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        transport, _ = await asyncio.get_running_loop().create_connection(
            asyncio.Protocol, *server.getsockname()
        )
        # more than both kernels take: the peer does not read
        transport.write(bytes(1 << 24))
        assert repeats(transport.get_extra_info("socket")) == 0
        transport.abort()
