"""Bodies: framing taken off strictly, any cuts, and large ones in one place."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.http.shapes import REFUSED, Shape

from mentatd.http.body import Chunked, Counted, Mapped, Progress


def feed(body: Counted | Chunked, pieces: list[bytes]) -> tuple[Progress, bytes]:
    progress = Progress.MORE
    for index, piece in enumerate(pieces):
        progress, rest = body.feed(piece)
        if progress is not Progress.MORE:
            return progress, rest + b"".join(pieces[index + 1 :])
        assert rest == b""
    return progress, b""


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(c, len(data)) for c in cuts), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges) if a < b]


@given(st.binary(min_size=1, max_size=50), st.binary(max_size=20), st.lists(st.integers(0, 70), max_size=5))
def test_a_counted_body_is_its_length(payload: bytes, behind: bytes, cuts: list[int]) -> None:
    body = Counted(len(payload))
    progress, rest = feed(body, cut(payload + behind, cuts))
    assert (progress, rest, body.take()) == (Progress.DONE, behind, payload)
    assert body.received == len(payload)


def test_a_counted_body_that_is_short_is_not_done() -> None:
    assert feed(Counted(4), [b"ab", b"c"]) == (Progress.MORE, b"")


@st.composite
def _chunked(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A payload, and one way to write it in chunks."""
    chunks = draw(st.lists(st.binary(min_size=1, max_size=40), max_size=5))
    extension = st.sampled_from([b"", b";a", b";a=b;c", b';a="\xff\t"'])
    zeros = st.sampled_from([b"", b"00"])
    coded = b"".join(draw(zeros) + b"%X" % len(c) + draw(extension) + b"\r\n" + c + b"\r\n" for c in chunks)
    trailers = draw(st.sampled_from([b"", b"X: y\r\n", b"A:\r\nContent-Length: 5\r\n"]))
    return b"".join(chunks), coded + draw(zeros) + b"0" + draw(extension) + b"\r\n" + trailers + b"\r\n"


@given(_chunked(), st.binary(max_size=20), st.lists(st.integers(0, 300), max_size=8))
def test_a_chunked_body_is_its_chunks(coded: tuple[bytes, bytes], behind: bytes, cuts: list[int]) -> None:
    payload, data = coded
    body = Chunked(1000)
    progress, rest = feed(body, cut(data + behind, cuts))
    assert (progress, rest, bytes(body.take())) == (Progress.DONE, behind, payload)


@given(_chunked())
def test_a_chunked_body_is_not_done_before_its_last_byte(coded: tuple[bytes, bytes]) -> None:
    _, data = coded
    assert feed(Chunked(1000), [data[:-1]]) == (Progress.MORE, b"")


@pytest.mark.parametrize("shape", [s for s in REFUSED if s.in_body], ids=lambda shape: shape.name)
def test_broken_chunks_are_malformed_however_they_come(shape: Shape) -> None:
    data = shape.data.partition(b"\r\n\r\n")[2]
    assert feed(Chunked(1 << 40), [data])[0] is Progress.MALFORMED
    assert feed(Chunked(1 << 40), [data[i : i + 1] for i in range(len(data))])[0] is Progress.MALFORMED


@pytest.mark.parametrize("data", [b"3;" + b"a" * 4100, b"0\r\nX: " + b"a" * 4100, b"0" * 5000])
def test_a_line_without_end_is_not_held(data: bytes) -> None:
    assert feed(Chunked(100), [data])[0] is Progress.MALFORMED


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=4))
def test_any_bytes_are_some_progress(data: bytes, cuts: list[int]) -> None:
    assert feed(Chunked(100), cut(data, cuts))[0] in Progress


@pytest.mark.parametrize(
    ("data", "progress"),
    [
        (b"5\r\nhello\r\n0\r\n\r\n", Progress.DONE),
        (b"6\r\n", Progress.TOO_LARGE),
        (b"3\r\nabc\r\n3\r\n", Progress.TOO_LARGE),
        (b"7fffffffffffffff\r\n", Progress.TOO_LARGE),
    ],
)
def test_a_chunked_body_is_counted_as_it_is_announced(data: bytes, progress: Progress) -> None:
    assert feed(Chunked(5), [data])[0] is progress


def test_what_came_is_counted_with_its_framing() -> None:
    body = Chunked(100)
    feed(body, [b"3\r\nab", b"c\r\n"])
    assert body.received == 8


def test_a_large_chunked_body_is_handed_on_without_a_copy() -> None:
    body = Chunked(1 << 20)
    feed(body, [b"30000\r\n" + bytes(0x30000) + b"\r\n0\r\n\r\n"])
    assert isinstance(body.take(), memoryview)


class _Owner(asyncio.Protocol):
    def __init__(self) -> None:
        self.told: list[str] = []

    def eof_received(self) -> None:
        self.told.append("eof")

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append("lost")

    def pause_writing(self) -> None:
        self.told.append("paused")

    def resume_writing(self) -> None:
        self.told.append("resumed")


@given(st.integers(1, 9), st.lists(st.integers(1, 5), min_size=1, max_size=20))
def test_a_mapped_body_takes_exactly_its_length(beginning: int, reads: list[int]) -> None:
    payload = bytes(range(10, 20))
    whole: list[bytes] = []
    body = Mapped(_Owner(), len(payload), payload[:beginning], lambda view: whole.append(bytes(view)))
    for size in reads:
        room = body.get_buffer(-1)
        assert len(room) == (0 if whole else len(payload) - body.received)
        taken = min(size, len(room))
        if not taken:
            break
        room[:taken] = payload[body.received : body.received + taken]
        body.buffer_updated(taken)
    if beginning + sum(reads) >= len(payload):
        assert whole == [payload]
    else:
        assert whole == []


def test_a_mapped_body_passes_on_what_concerns_the_connection() -> None:
    owner = _Owner()
    body = Mapped(owner, 10, b"", lambda view: None)
    body.pause_writing()
    body.resume_writing()
    body.eof_received()
    body.connection_lost(None)
    assert owner.told == ["paused", "resumed", "eof", "lost"]
