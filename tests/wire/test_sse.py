"""Server-sent events in any cuts and with any line ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.wire.sse import EventTooLarge, SseDecoder

LIMIT = 1000


def decode(*pieces: bytes, limit: int = LIMIT) -> list[bytes]:
    decoder = SseDecoder(limit)
    return [event for piece in pieces for event in decoder.feed(piece)]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a \n\n", [b" a "]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\r\n\ndata: b\n\r\n", [b"a", b"b"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [b"a"]),
        (b": a comment\nid: 1\nevent: message\nretry: 5\ndata: a\n\n", [b"a"]),
        (b"data\n\n", [b""]),
        (b"data:\ndata:\n\n", [b"\n"]),
        (b"\n\n\n", []),
        (b"event: ping\n\n", []),
        (b"datas: a\n\n", []),
        (b"data: never ended\n", []),
        ("data: é€😀\n\n".encode(), ["é€😀".encode()]),
    ],
)
def test_events(stream: bytes, events: list[bytes]) -> None:
    assert decode(stream) == events
    assert decode(*(stream[at : at + 1] for at in range(len(stream)))) == events


def test_an_event_does_not_wait_for_the_byte_after_its_last_cr() -> None:
    assert decode(b"data: a\r\r") == [b"a"]
    assert decode(b"data: a\r\n\r") == [b"a"]


def test_an_empty_piece_does_not_part_a_crlf() -> None:
    assert decode(b"data: a\r", b"", b"\ndata: b\r\n\r\n") == [b"a\nb"]


@pytest.mark.parametrize("ends", [b"", b"\n", b"\n\n"])
def test_an_event_is_bounded(ends: bytes) -> None:
    with pytest.raises(EventTooLarge, match="over 20 bytes"):
        decode(b"data: " + b"x" * 21 + ends, limit=20)
    assert decode(b"data: " + b"x" * 14 + b"\n\n", limit=20) == [b"x" * 14]


def test_an_event_of_many_lines_is_bounded() -> None:
    with pytest.raises(EventTooLarge):
        decode(b"data:\n" * 22, limit=20)


def test_each_event_has_the_limit_to_itself() -> None:
    assert decode(b"data: 0123456789\n\n" * 50, limit=20) == [b"0123456789"] * 50


def test_comments_without_end_are_no_event() -> None:
    assert decode(*[b": keepalive\n\n"] * 500, limit=20) == []


@given(st.binary(max_size=80) | st.text(alphabet="\r\n: data", max_size=80).map(str.encode), st.data())
def test_any_bytes_in_any_cuts_give_the_same_events(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert decode(*pieces) == decode(stream)
