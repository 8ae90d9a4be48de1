"""Requests on their way to the kernel: what is written, when, and when they are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from tests.support.deadlines import until

from mentatd.http.outgoing import Outgoing
from mentatd.http.request import Body

SLICE = 262144


class Kernel(asyncio.Transport):
    """A transport that takes what it is given until it is full, and tells like the real ones."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[int] = []
        self.room = 1 << 40
        self.drains_at_once = False
        self.limits: tuple[int | None, int | None] = (None, None)
        self.sent = 0
        self.outgoing = Outgoing(self, self.note, tls=False)

    def note(self) -> None:
        self.sent += 1

    def start(self, head: bytes, body: Body) -> None:
        """Send one request; count that all of it has gone, whichever way that is told."""
        if self.outgoing.start(head, body):
            self.note()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limits = high, low

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(len(data))
        if sum(self.written) > self.room:
            self.outgoing.blocked()
            if self.drains_at_once:
                self.outgoing.drained()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def drain(self, room: int = 1 << 40) -> None:
        self.room = room
        self.outgoing.drained()


@pytest.mark.parametrize("tls", [False, True])
def test_the_transport_tells_when_all_has_gone(tls: bool) -> None:
    kernel = Kernel()
    Outgoing(kernel, kernel.note, tls=tls)
    assert kernel.limits == (int(tls), 0)


def test_a_small_request_is_one_write() -> None:
    kernel = Kernel()
    assert kernel.outgoing.start(b"head", memoryview(b"body"))
    assert (kernel.written, kernel.outgoing.under_way) == ([8], False)
    assert kernel.sent == 0  # the one who started it knows


def test_a_request_that_the_kernel_does_not_take_is_sent_when_it_has() -> None:
    kernel = Kernel()
    kernel.room = 3
    kernel.start(b"head", b"")
    assert (kernel.sent, kernel.outgoing.under_way) == (0, True)
    kernel.drain()
    assert (kernel.sent, kernel.outgoing.under_way) == (1, False)


def test_what_a_transport_tells_inside_its_write_is_told_once() -> None:
    kernel = Kernel()
    kernel.room, kernel.drains_at_once = 3, True
    assert not kernel.outgoing.start(b"head", b"")
    assert (kernel.sent, kernel.outgoing.under_way) == (1, False)


def test_a_large_one_goes_out_in_slices_as_the_kernel_takes_them() -> None:
    kernel = Kernel()
    kernel.room = 0
    kernel.start(b"head", bytes(2 * SLICE + 5))
    assert kernel.written == [SLICE + 4]
    kernel.drain(room=0)
    assert kernel.written == [SLICE + 4, SLICE]
    assert kernel.sent == 0
    kernel.drain()
    assert kernel.written == [SLICE + 4, SLICE, 5]
    assert kernel.sent == 1


async def test_a_kernel_that_takes_all_leaves_turns_to_others() -> None:
    kernel = Kernel()
    kernel.start(b"", bytes(40 * SLICE))
    assert len(kernel.written) < 20
    await until(lambda: kernel.sent)
    assert sum(kernel.written) == 40 * SLICE


async def test_a_stopped_request_goes_no_further_and_lets_go_of_its_body() -> None:
    kernel = Kernel()
    body = bytearray(40 * SLICE)
    kernel.start(b"", memoryview(body))
    kernel.outgoing.stop()
    written = len(kernel.written)
    body.clear()
    kernel.drain()
    await asyncio.sleep(0)
    assert (len(kernel.written), kernel.sent, kernel.outgoing.under_way) == (written, 0, False)


def test_the_connection_carries_the_next_request() -> None:
    kernel = Kernel()
    kernel.start(b"one", b"")
    kernel.start(b"three", b"")
    assert (kernel.written, kernel.sent) == ([3, 5], 2)
