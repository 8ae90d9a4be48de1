"""Heads of answers: what is read, and what is refused."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.http.framing import body_of
from mentatd.http.response import (
    MAX_FIELDS,
    MAX_HEAD,
    BadAnswer,
    ResponseHead,
    head_end,
    quote,
    read_again,
    read_head,
)

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
