"""Bodies of answers: which bytes are theirs, and where they end."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.http.framing import Body, ChunkedBody, CountedBody, OpenBody, body_of
from mentatd.http.response import BadAnswer, read_head
from mentatd.serve.eventstream import stands_between_events

OK = b"HTTP/1.1 200 OK\r\n"


def taken(body: Body, reads: list[bytes]) -> tuple[bytes, bytes]:
    """What the body's reader made of these reads until its end: as on the wire, and without framing."""
    wire, payload = b"", b""
    for read in reads:
        wire += body.take(read)
        payload += b"".join(body.pieces)
        if body.ended:
            break
    return wire, payload


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({at % len(data) for at in cuts} - {0}) if data else []
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True) if a < b]


def test_a_body_by_its_head() -> None:
    assert isinstance(body_of(read_head(OK + b"content-length: 5\r\n\r\n")), CountedBody)
    assert isinstance(body_of(read_head(OK + b"transfer-encoding: chunked\r\n\r\n")), ChunkedBody)
    assert isinstance(body_of(read_head(OK + b"\r\n")), OpenBody)


def test_an_empty_counted_body_has_ended_before_it_began() -> None:
    assert CountedBody(0).ended
    assert not CountedBody(1).ended


@pytest.mark.parametrize("stray", [b"", b"x", b"\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_counted_body_ends_at_its_length(stray: bytes) -> None:
    data = b"hello\r\n\r\n" + stray
    for at in range(1, len(data)):
        body = CountedBody(9)
        assert taken(body, [data[:at], data[at:]]) == (b"hello\r\n\r\n", b"hello\r\n\r\n")
        assert body.ended
        assert (body.payload_bytes, body.tail) == (9, b"\r\n\r\n")
        assert not body.at_boundary


def test_an_open_body_is_all_that_comes() -> None:
    body = OpenBody()
    assert taken(body, [b"abc", b"d", b"efghi"]) == (b"abcdefghi", b"abcdefghi")
    assert (body.ended, body.payload_bytes, body.tail, body.at_boundary) == (False, 9, b"fghi", False)


CHUNKED = [
    b"0\r\n\r\n",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"5;a=b\r\nhello\r\n0;c\r\n\r\n",
    b"9\r\n0\r\n\r\n0\r\n\r\r\n0\r\n\r\n",
    b"4\r\n\r\n\r\n\r\n00\r\nX-Sum: 1\r\nY: \r\n\r\n",
    b"A\r\ndata: x\n\n \r\n1\r\ny\r\n000\r\n\r\n",
]


@pytest.mark.parametrize("message", CHUNKED)
@pytest.mark.parametrize("stray", [b"", b"x", b"\r\n", b"\r\n\r\n", b"0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_chunked_body_ends_where_it_ends_however_it_is_cut(message: bytes, stray: bytes) -> None:
    _, payload = taken(ChunkedBody(), [message])
    data = message + stray
    inside = range(1, len(data))
    pairs = [[data[:a], data[a:b], data[b:]] for a in inside for b in range(a + 1, len(data))]
    for reads in [[data[:at], data[at:]] for at in inside] + pairs + [[bytes([b]) for b in data]]:
        body = ChunkedBody()
        assert taken(body, reads) == (message, payload)
        assert body.ended
        assert (body.payload_bytes, body.tail) == (len(payload), payload[-4:])


@pytest.mark.parametrize(
    "data",
    [
        b"5\nhello\r\n", b"5 \r\nhello\r\n", b"0x5\r\nhello", b"-1\r\n", b"+1\r\n", b"\r\n", b"g\r\n",
        b"5\r\nhelloo", b"5\r\nhello\n0\r\n\r\n", b"fffffffffffffffff\r\n", b"5;\x00\r\nhello\r\n",
        b"0\r\nbad trailer\r\n\r\n", b"0\r\na : b\r\n\r\n",
    ],
)  # fmt: skip
def test_broken_chunks(data: bytes) -> None:
    for reads in [data], [bytes([b]) for b in data]:
        body = ChunkedBody()
        with pytest.raises(BadAnswer, match="broken chunks"):
            taken(body, reads)
        assert not body.ended


@pytest.mark.parametrize(
    ("reads", "between"),
    [
        ([b"5\r\nhello\r\n"], True),
        ([b"5\r\nhello", b"\r\n"], True),
        ([b"5\r\nhello\r", b"\n"], True),
        ([b"5\r\nhello\r\n", b"5\r\nhello\r\n"], True),
        ([b"5\r\nhello"], False),
        ([b"5\r\nhello\r"], False),
        ([b"5\r\nhello\r\n5"], False),
        ([b"5\r\nhello\r\n", b"5\r"], False),
        ([b"5\r\nhello\r\n5\r\n"], False),
        ([b"5\r\nhell", b"\n"], False),
        ([b"4\r\n\r\n"], False),
    ],
)
def test_between_two_chunks(reads: list[bytes], between: bool) -> None:
    body = ChunkedBody()
    taken(body, reads)
    assert body.at_boundary is between


def test_a_read_that_breaks_the_chunks_does_not_count() -> None:
    body = ChunkedBody()
    body.take(b"8\r\ndata: x\n\r\n")
    with pytest.raises(BadAnswer):
        body.take(b"2\r\nyzq")
    assert (body.payload_bytes, body.tail, body.at_boundary) == (8, b": x\n", True)


EVENTS = st.binary(max_size=300).map(lambda text: b"data: %b\n\n" % text)
AN_EVENT = st.lists(EVENTS, min_size=1, max_size=1)


def told(body: Body) -> tuple[bool, int, bool, bool]:
    """What a body's reader says of the place that it has come to."""
    return body.ended, body.payload_bytes, body.at_boundary, stands_between_events(body.tail)


@given(
    reads=st.lists(
        st.builds(lambda chunks, cuts: cut(encode(chunks, b"", [])[: -len(b"0\r\n\r\n")], cuts),
                  AN_EVENT | st.lists(EVENTS | st.binary(max_size=9), max_size=3),
                  st.lists(st.integers(0, 999), max_size=1)),
        max_size=6,
    ).map(lambda parts: list(itertools.chain(*parts))),
    end=st.sampled_from([b"", b"0\r\n\r\n", b"0\r\n\r\nx", b"?\n\n\r\n"]),
)  # fmt: skip
def test_what_only_passes_is_read_alike(reads: list[bytes], end: bytes) -> None:
    one, other = ChunkedBody(), ChunkedBody()
    for read in [*reads, *([end] if end else [])]:
        try:
            wire = one.take(read)
        except BadAnswer:
            with pytest.raises(BadAnswer):
                other.pass_on(read)
            break
        assert other.pass_on(read) == wire
        assert not other.pieces
        assert told(one) == told(other)


@pytest.mark.parametrize("size", [*range(2, 40), *range(240, 270), *range(2030, 2060), *range(4080, 4100)])
def test_an_event_of_any_size_passes(size: int) -> None:
    event = b"x" * (size - 2) + b"\n\n"
    whole = b"%x\r\n%b\r\n" % (size, event)
    for read in whole, whole[:-1], b"0" + whole, whole.upper(), whole.replace(b"\r\n", b"\r\n\n", 1):
        one, other = ChunkedBody(), ChunkedBody()
        try:
            assert one.take(read) == read
        except BadAnswer:
            with pytest.raises(BadAnswer):
                other.pass_on(read)
            continue
        assert other.pass_on(read) == read
        assert told(one) == told(other)


def encode(chunks: list[bytes], extension: bytes, trailers: list[bytes]) -> bytes:
    framed = b"".join(b"%x%s\r\n%s\r\n" % (len(chunk), extension, chunk) for chunk in chunks if chunk)
    return framed + b"0\r\n" + b"".join(b"x: %s\r\n" % trailer for trailer in trailers) + b"\r\n"


LINE_ENDS = st.lists(st.sampled_from([b"\r", b"\n", b"\r\n", b"0", b"a", b"\r\n0\r\n\r\n"])).map(b"".join)


@given(
    chunks=st.lists(st.binary(max_size=20) | LINE_ENDS, max_size=6),
    extension=st.sampled_from([b"", b";a=b", b';a="b c"']),
    trailers=st.lists(st.sampled_from([b"", b"1", b"a b"]), max_size=2),
    stray=st.binary(max_size=20) | LINE_ENDS,
    cuts=st.lists(st.integers(0, 400), max_size=8),
)
def test_any_chunks_any_cuts(
    chunks: list[bytes], extension: bytes, trailers: list[bytes], stray: bytes, cuts: list[int]
) -> None:
    message = encode(chunks, extension, trailers)
    body = ChunkedBody()
    assert taken(body, cut(message + stray, cuts)) == (message, b"".join(chunks))
    assert body.ended


@given(st.binary(max_size=100) | LINE_ENDS, st.lists(st.integers(0, 200), max_size=6))
def test_no_bytes_make_a_body_raise_anything_else(data: bytes, cuts: list[int]) -> None:
    body = ChunkedBody()
    try:
        wire, _ = taken(body, cut(data, cuts))
    except BadAnswer:
        return
    assert data.startswith(wire)


def test_the_base_says_nothing() -> None:
    body = Body()
    for take in body.take, body.pass_on:
        with pytest.raises(NotImplementedError):
            take(b"")
    assert not body.at_boundary
