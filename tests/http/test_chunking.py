"""The chunked coding, beside another reader of it: llhttp."""

from __future__ import annotations

import itertools

import pytest
from httptools import HttpParserError, HttpResponseParser
from hypothesis import given, settings
from hypothesis import strategies as st

from mentatd.http.chunking import BadChunks, Chunking, read_size
from mentatd.http.limits import CHUNK_LINE_BYTES, TRAILER_BYTES


@pytest.mark.parametrize(
    ("line", "size"),
    [
        (b"0", 0),
        (b"000", 0),
        (b"1aF", 0x1AF),
        (b"5;a=b", 5),
        (b'5;a="b; \\"\xff";c;d=e', 5),
        (b"7fffffffffffffff", 2**63 - 1),
        (b"0000000000000005", 5),
    ],
)
def test_a_size(line: bytes, size: int) -> None:
    assert read_size(line) == size


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"5 ", b" 5", b"+5", b"-5", b"0x5", b"1_0", b"g"),
        *(b"5\n", b"5;\x00", b"5;a\rb", b"8" + b"0" * 15, b"0" * 17),
        *(b"5;", b"5 ;a", b"5; a", b"5;a ", b"5;;a", b"5;a;", b"5;=b", b"5;a=", b"5;a= b", b"5;\xff"),
        *(b'5;"a"', b'5;a="b', b'5;a="b"c', b'5;a="b" ;c', b'5;a="\x01"', b'5;a="b\\"'),
    ],
)
def test_what_is_no_size(line: bytes) -> None:
    with pytest.raises(BadChunks):
        read_size(line)


@pytest.mark.parametrize(
    "data",
    [
        b"3;" + b"a" * CHUNK_LINE_BYTES,
        b"3;" + b"a" * CHUNK_LINE_BYTES + b"\r\nabc\r\n",
        b"0\r\nx: " + b"a" * CHUNK_LINE_BYTES,
        b"0\r\n" + b"x: y\r\n" * (TRAILER_BYTES // 6 + 1),
    ],
)
def test_every_line_has_a_bound(data: bytes) -> None:
    with pytest.raises(BadChunks):
        Chunking().take(data, [])


def test_what_a_read_that_fails_leaves() -> None:
    chunking = Chunking()
    chunking.take(b"2\r\nab\r\n", [])
    for broken in (b"2\r\nabc", b"x", b"0\r\n:\r\n"):
        with pytest.raises(BadChunks):
            chunking.take(broken, [])
        assert chunking.between
        assert not chunking.ended


@pytest.mark.parametrize(
    ("data", "between"),
    [
        (b"", True),
        (b"2", False),
        (b"2\r\nab", False),
        (b"2\r\nab\r", False),
        (b"2\r\nab\r\n", True),
        (b"0\r\n", False),
    ],
)
def test_between_two_chunks(data: bytes, between: bool) -> None:
    chunking = Chunking()
    chunking.take(data, [])
    assert chunking.between is between


class _Seen:
    """What llhttp makes of an answer."""

    def __init__(self) -> None:
        self.body = b""
        self.complete = False

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.complete = True


WORDS = st.sampled_from(
    [b"0", b"1", b"2", b"a", b"0a", b"\r\n", b"\r", b"\n", b"ab", b"x: y", b":", b"\xff", b"\x00",
     b";", b";q", b"; q", b" ", b"=", b'"', b"\\", b';q="', b";q=a"]
)  # fmt: skip
CHUNKS = st.lists(
    st.one_of(
        st.binary(min_size=1, max_size=12).map(lambda data: b"%x\r\n%b\r\n" % (len(data), data)),
        WORDS,
        st.just(b"0\r\n\r\n"),
        st.lists(WORDS, max_size=5).map(lambda words: b"1;a" + b"".join(words) + b"\r\nx\r\n"),
    ),
    max_size=8,
).map(b"".join)


@given(data=CHUNKS, cuts=st.lists(st.integers(0, 100), max_size=4))
@settings(max_examples=1000)
def test_what_is_taken_llhttp_takes_alike(data: bytes, cuts: list[int]) -> None:
    chunking, pieces = Chunking(), list[bytes]()
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    size = 0
    try:
        for a, b in itertools.pairwise(edges):
            if not chunking.ended:
                size += chunking.take(data[a:b], pieces)
    except BadChunks:
        return
    seen = _Seen()
    parser = HttpResponseParser(seen)
    parser.feed_data(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    try:
        parser.feed_data(data[:size])
    except HttpParserError as error:
        pytest.fail(f"llhttp refuses {data[:size]!r}: {error}")
    assert (seen.complete, seen.body) == (chunking.ended, b"".join(pieces))
