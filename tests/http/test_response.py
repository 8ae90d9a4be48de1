"""Heads and bodies of answers: what is read, what is refused, and where a message ends."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.http.response import (
    MAX_FIELDS,
    MAX_HEAD,
    BadAnswer,
    Body,
    ChunkedBody,
    CountedBody,
    OpenBody,
    ResponseHead,
    body_of,
    head_end,
    quote,
    read_again,
    read_head,
)
from mentatd.serve.eventstream import stands_between_events

OK = b"HTTP/1.1 200 OK\r\n"


# -- where a head ends


@pytest.mark.parametrize(
    ("data", "end"),
    [
        (b"", 0),
        (b"H", 0),
        (b"HTTP/1.", 0),
        (b"HTTP/1.1 200 OK\r\n\r", 0),
        (b"HTTP/1.1 200 OK\r\n\r\n", 19),
        (b"HTTP/1.1 200 OK\r\n\r\nbody\r\n\r\n", 19),
    ],
)
def test_head_end(data: bytes, end: int) -> None:
    assert head_end(data) == end


def test_head_end_is_found_however_the_head_arrived() -> None:
    data = OK + b"a: b\r\n\r\nrest"
    for searched in range(len(data)):
        if head_end(data[:searched]) == 0:
            assert head_end(data, searched) == len(OK) + 8


@pytest.mark.parametrize(
    "data",
    [b"\r\nHTTP/1.1 200 OK", b"HTTP/2", b"hello", b"\x15\x03\x01", b"SSH-2.0-x\r\n", b"RTSP/1.0 200 OK"],
)
def test_what_can_be_no_head_is_refused_at_once_and_quoted(data: bytes) -> None:
    with pytest.raises(BadAnswer, match=r"^not HTTP/1\.x: '"):
        head_end(data)


def test_a_head_has_a_bound() -> None:
    start = OK + b"a: "
    whole = start + b"x" * (MAX_HEAD - len(start) - 4) + b"\r\n\r\n"
    assert head_end(whole) == MAX_HEAD
    assert head_end(whole[:-1]) == 0
    for data in (start + b"x" * MAX_HEAD, start + b"x" * MAX_HEAD + b"\r\n\r\n"):
        with pytest.raises(BadAnswer, match="a head of more than 64 KiB"):
            head_end(data)


@pytest.mark.parametrize("data", [b"HTTP/1.1 200 OK\n\nhi", OK + b"a: b\n", OK + b"\n"])
def test_a_head_of_bare_lines_is_not_waited_for(data: bytes) -> None:
    seen = re.search(rb"[^\r]\n", data)
    assert seen is not None
    for searched in range(seen.end()):
        with pytest.raises(BadAnswer, match="LF without CR"):
            head_end(data, searched)


def test_a_quote_is_short_and_on_one_line() -> None:
    assert quote(b"a\r\n\x00") == r"'a\r\n\x00'"
    assert quote(b"x" * 81) == "'" + "x" * 80 + "'…"


# -- what a head says


@pytest.mark.parametrize(
    ("lines", "length", "chunked", "keep_alive"),
    [
        (b"HTTP/1.1 200 OK|content-length: 5", 5, False, True),
        (b"HTTP/1.1 200 OK|Content-Length:5 ", 5, False, True),
        (b"HTTP/1.1 200 OK|Content-Length:\t0", 0, False, True),
        (b"HTTP/1.1 200|content-length: 5", 5, False, True),
        (b"HTTP/1.1 200 |content-length: 5", 5, False, True),
        (b"HTTP/1.1 599 a \xff b|content-length: 5", 5, False, True),
        (b"HTTP/1.1 200 OK|TRANSFER-ENCODING: Chunked ", None, True, True),
        (b"HTTP/1.1 200 OK", None, False, False),
        (b"HTTP/1.1 200 OK|connection: keep-alive", None, False, False),
        (b"HTTP/1.1 200 OK|content-length: 5|connection: close", 5, False, False),
        (b"HTTP/1.1 200 OK|content-length: 5|connection: x-a , CLOSE", 5, False, False),
        (b"HTTP/1.1 200 OK|content-length: 5|connection: x|Connection: close", 5, False, False),
        (b"HTTP/1.1 200 OK|content-length: 5|connection: closed", 5, False, True),
        (b"HTTP/1.0 200 OK|content-length: 5", 5, False, False),
        (b"HTTP/1.0 200 OK|content-length: 5|connection: Keep-Alive", 5, False, True),
        (b"HTTP/1.0 200 OK|connection: keep-alive", None, False, False),
        (b"HTTP/1.1 204 No Content", 0, False, True),
        (b"HTTP/1.1 204 No Content|content-length: 5", 0, False, True),
        (b"HTTP/1.1 304 Not Modified|content-length: 5", 0, False, True),
        (b"HTTP/1.1 304 Not Modified|transfer-encoding: chunked", 0, False, True),
        (b"HTTP/1.1 100 Continue", 0, False, True),
        (b"HTTP/1.1 206 Partial|content-length: 5|content-range: bytes 0-4/9", 5, False, True),
        (b"HTTP/1.1 426 Upgrade Required|upgrade: h2c|connection: upgrade|content-length: 5", 5, False, True),
    ],
)
def test_framing(lines: bytes, length: int | None, chunked: bool, keep_alive: bool) -> None:
    head = read_head(lines.replace(b"|", b"\r\n") + b"\r\n\r\n")
    assert (head.length, head.chunked, head.keep_alive) == (length, chunked, keep_alive)
    assert head.status == int(lines[9:12])
    assert head.http10 == (lines[7:8] == b"0")
    assert head.raw == lines.replace(b"|", b"\r\n") + b"\r\n"


def test_the_answer_to_head_has_no_body() -> None:
    for field in (b"content-length: 5", b"transfer-encoding: chunked", b"a: b"):
        head = read_head(OK + field + b"\r\n\r\n", head_request=True)
        assert (head.length, head.chunked, head.keep_alive) == (0, False, True)
        assert body_of(head).ended


def test_fields() -> None:
    head = read_head(
        OK
        + b"Set-Cookie: a=1\r\nx:\r\nKeep-Alive: timeout=5\r\nset-cookie:\t b=2 \r\nN\xc3: \xff".replace(
            b"N\xc3", b"n"
        )
        + b"\r\n\r\n"
    )
    assert head.get(b"set-cookie") == b"a=1"
    assert head.get(b"x") == b""
    assert head.get(b"n") == b"\xff"
    assert head.get(b"cookie") is None
    assert head.keep_alive_field == b"timeout=5"
    assert list(head.fields()) == [
        (b"set-cookie", b"a=1"),
        (b"x", b""),
        (b"keep-alive", b"timeout=5"),
        (b"set-cookie", b"b=2"),
        (b"n", b"\xff"),
    ]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"HTTP/1.2 200 OK\r\n\r\n", r"not HTTP/1\.x: 'HTTP/1.2 200"),
        (b"HTTP/1.10 200 OK\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 099 OK\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1  200 OK\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\na: b\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "status 101"),
        (OK + b"a: b\nc: d\r\n\r\n", "broken head"),
        (OK + b"a: b\r\n c\r\n\r\n", "broken head"),
        (OK + b"a : b\r\n\r\n", "broken head"),
        (OK + b": b\r\n\r\n", "broken head"),
        (OK + b"a\r\n\r\n", "broken head"),
        (OK + b"a: \x00\r\n\r\n", "broken head"),
        (OK + b"a: b\rc\r\n\r\n", "broken head"),
        (OK + b"content-length: 5\r\ncontent-length: 6\r\n\r\n", "Duplicate Content-Length"),
        (OK + b"content-length: 5, 5\r\n\r\n", "Invalid character in Content-Length"),
        (OK + b"content-length: +5\r\n\r\n", "Invalid character in Content-Length"),
        (OK + b"content-length: \r\n\r\n", "Empty Content-Length"),
        (OK + b"content-length: 99999999999999999999\r\n\r\n", "Content-Length overflow"),
        (OK + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n", "Transfer-Encoding can't be present"),
        (OK + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n", "Content-Length can't be present"),
        (OK + b"transfer-encoding: gzip, chunked\r\n\r\n", "transfer coding .*: 'gzip, chunked'"),
        (OK + b"transfer-encoding: identity\r\n\r\n", "transfer coding"),
        (OK + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n", "transfer coding"),
        (b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "transfer coding"),
        (OK + b"a: b\r\n" * (MAX_FIELDS + 1) + b"\r\n", "more than 256 fields"),
    ],
)  # fmt: skip
def test_heads_that_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(BadAnswer, match=why):
        read_head(data)


def test_as_many_fields_as_allowed() -> None:
    assert len(list(read_head(OK + b"a: b\r\n" * MAX_FIELDS + b"\r\n").fields())) == MAX_FIELDS


@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_make_a_head_raise_anything_else(tail: bytes, complete: bool) -> None:
    data = OK + tail + (b"\r\n\r\n" if complete else b"")
    try:
        if end := head_end(data):
            body_of(read_head(data[:end]))
    except BadAnswer:
        pass


# -- a head that is known

LENGTHS = [
    b"0",
    b"1",
    b"7",
    b"10",
    b"007",
    b"123456789012345678",
    b"1234567890123456789",
    b"-1",
    b"+1",
    b"",
    b"1 ",
    b"1,1",
]
HEADS = [
    b"content-length: %b\r\n",
    b"Content-Length:%b \r\nServer: x\r\n",
    b"server: x\r\ncontent-length: \t%b\r\nkeep-alive: timeout=5\r\n",
    b"connection: close\r\nCONTENT-LENGTH: %b\r\n",
    b"x-content-length: 7\r\ncontent-length: %b\r\n",
    b"content-length: 7\r\ncontent-length: %b\r\n",
    b"content-length: %b\r\ncontent-length: 7\r\n",
    b"content-length: %b\r\ntransfer-encoding: chunked\r\n",
    b"transfer-encoding: chunked\r\nx: %b\r\n",
    b"x: %b\r\n",
]
STARTS = [
    OK,
    b"HTTP/1.0 200 OK\r\n",
    b"HTTP/1.1 204 No Content\r\n",
    b"HTTP/1.1 304 Not Modified\r\n",
    b"HTTP/1.1 500\r\n",
]


def judged(data: bytes) -> ResponseHead | None:
    try:
        return read_head(data)
    except BadAnswer:
        return None


@pytest.mark.parametrize("fields", HEADS)
@pytest.mark.parametrize("start", STARTS)
def test_a_head_again_is_as_it_would_be_judged(start: bytes, fields: bytes) -> None:
    said = ("whole", "status", "http10", "length", "chunked", "keep_alive", "keep_alive_field", "raw")
    for one, other in itertools.product(LENGTHS, LENGTHS):
        known, data = judged(start + fields % one + b"\r\n"), start + fields % other + b"\r\n"
        if known is None:
            continue
        for rest in b"", b"7\r\n\r\n", data:
            again = read_again(known, data + rest)
            if again is None:
                assert data != known.whole
                continue
            anew = judged(data)
            assert anew is not None
            assert [getattr(again, name) for name in said] == [getattr(anew, name) for name in said]


def test_what_was_found_out_about_a_head_is_true_of_it_with_another_length() -> None:
    known = read_head(OK + b"content-length: 70\r\n\r\n")
    known.note = True
    again = read_again(known, OK + b"content-length: 5\r\n\r\n")
    assert again is not None
    assert (again.length, again.note) == (5, True)
    assert read_again(again, known.whole).length == 70  # type: ignore[union-attr]


@pytest.mark.parametrize("cut", range(1, len(OK + b"content-length: 70\r\n\r\n")))
def test_a_known_head_that_has_not_come_is_not_known(cut: int) -> None:
    known = read_head(OK + b"content-length: 70\r\n\r\n")
    assert read_again(known, known.whole[:cut]) is None


@given(st.binary(max_size=80))
def test_what_follows_the_same_start_is_judged(tail: bytes) -> None:
    known = read_head(OK + b"content-length: 70\r\nx: y\r\n\r\n")
    again = read_again(known, known.up_to_length + tail)
    if again is not None:
        assert again.length == read_head(again.whole).length


# -- where a body ends


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
