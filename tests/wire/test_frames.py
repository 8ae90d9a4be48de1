"""Frames from bytes that come cut anywhere."""

from __future__ import annotations

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.strategies import texts

from mentatd.wire import frames
from mentatd.wire.frames import (
    LIMIT,
    Decoder,
    Frame,
    FrameError,
    FrameMalformed,
    FrameTooLarge,
    FrameTruncated,
    encode,
)

headers = st.dictionaries(texts, st.none() | st.booleans() | st.integers(0, 2**63) | texts, max_size=3)
messages = st.lists(st.tuples(headers, st.binary(max_size=20)), max_size=4)


def decode(chunks: list[bytes], decoder: Decoder | None = None) -> list[Frame | str]:
    """Every frame, and the name of the error that ended them if one did."""
    decoder = decoder or Decoder()
    found: list[Frame | str] = []
    try:
        for chunk in chunks:
            decoder.feed(chunk)
            while (frame := decoder.next_frame()) is not None:
                found.append(frame)
        decoder.finish()
    except FrameError as error:
        found.append(type(error).__name__)
    return found


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted(place % (len(data) + 1) for place in places)
    return [data[a:b] for a, b in zip([0, *edges], [*edges, len(data)], strict=True)]


def test_the_layout() -> None:
    assert encode({"t": "ping", "req": 0}) == b'\x14\0\0\0\0\0\0\0{"t":"ping","req":0}'
    assert encode({}, b"abc") == b"\x02\0\0\0\x03\0\0\0{}abc"


@given(messages, st.lists(st.integers(0, 10_000), max_size=8))
def test_frames_come_back_whatever_the_cuts(
    sent: list[tuple[dict[str, object], bytes]], places: list[int]
) -> None:
    stream = b"".join(encode(header, payload) for header, payload in sent)
    assert decode(cut(stream, places)) == [Frame(header, payload) for header, payload in sent]


def test_one_byte_at_a_time() -> None:
    stream = encode({"t": "a"}, b"x") + encode({"t": "b"})
    assert decode([bytes([byte]) for byte in stream]) == [Frame({"t": "a"}, b"x"), Frame({"t": "b"})]


@given(st.binary(max_size=64), st.lists(st.integers(0, 64), max_size=5))
def test_any_bytes_end_in_frames_or_a_named_error_wherever_they_are_cut(
    data: bytes, places: list[int]
) -> None:
    whole = decode([data])
    assert decode(cut(data, places)) == whole
    assert all(isinstance(item, Frame) for item in whole[:-1])


@given(messages, st.integers(1, 10_000))
def test_a_stream_that_ends_inside_a_frame_is_truncated(
    sent: list[tuple[dict[str, object], bytes]], short: int
) -> None:
    last = encode({"t": "last"}, b"payload")
    stream = b"".join(encode(header, payload) for header, payload in sent) + last[: short % len(last) or 1]
    assert decode([stream]) == [*(Frame(header, payload) for header, payload in sent), "FrameTruncated"]


@pytest.mark.parametrize("header", [b"", b"nope", b"[]", b"\xff", b"null", b"[" * 5000])
def test_a_header_that_is_no_object_ends_the_stream(header: bytes) -> None:
    decoder = Decoder()
    decoder.feed(encode({"t": "good"}) + struct.pack("<II", len(header), 0) + header + encode({"t": "later"}))
    assert decoder.next_frame() == Frame({"t": "good"})
    for _ in range(2):
        with pytest.raises(FrameMalformed, match="a frame's header"):
            decoder.next_frame()


@pytest.mark.parametrize(
    ("lengths", "what"),
    [((LIMIT + 1, 0), "header"), ((2, LIMIT + 1), "payload"), ((2**32 - 1, 2**32 - 1), "header")],
)
def test_a_length_over_the_limit_is_refused_before_its_bytes_come(
    lengths: tuple[int, int], what: str
) -> None:
    decoder = Decoder()
    decoder.feed(struct.pack("<II", *lengths))
    with pytest.raises(FrameTooLarge, match=f"a {what} of .* at most {LIMIT}"):
        decoder.next_frame()


def test_the_caller_sets_lower_limits() -> None:
    frame = encode({"a": 1}, b"abc")
    assert decode([frame], Decoder(max_header=7, max_payload=3)) == [Frame({"a": 1}, b"abc")]
    assert decode([frame], Decoder(max_header=6, max_payload=3)) == ["FrameTooLarge"]
    assert decode([frame], Decoder(max_header=7, max_payload=2)) == ["FrameTooLarge"]


def test_a_limit_is_raised_once_it_is_known_what_comes() -> None:
    frame = encode({"t": "x" * 100})
    decoder = Decoder(max_header=10)
    decoder.widen(200)
    decoder.feed(frame)
    assert decoder.next_frame() is not None


@pytest.mark.parametrize(("header", "payload"), [(LIMIT + 1, 0), (0, LIMIT + 1)])
def test_limits_over_the_protocols_are_a_mistake(header: int, payload: int) -> None:
    with pytest.raises(ValueError, match="at most"):
        Decoder(max_header=header, max_payload=payload)


def test_an_announced_length_costs_no_memory() -> None:
    tracemalloc.start()
    try:
        decoder = Decoder()
        decoder.feed(struct.pack("<II", LIMIT, LIMIT) + b"{")
        assert decoder.next_frame() is None
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("header", "payload", "what"), [({"t": "xxxx"}, b"", "header"), ({}, b"x" * 11, "payload")]
)
def test_what_is_too_large_is_not_sent(
    monkeypatch: pytest.MonkeyPatch, header: dict[str, str], payload: bytes, what: str
) -> None:
    monkeypatch.setattr(frames, "LIMIT", 10)
    with pytest.raises(FrameTooLarge, match=f"a {what} of 1"):
        encode(header, payload)


def test_the_end_at_a_boundary_is_clean() -> None:
    decoder = Decoder()
    decoder.finish()
    decoder.feed(encode({"t": "ping"}))
    with pytest.raises(FrameTruncated):
        decoder.finish()
    decoder.next_frame()
    decoder.finish()
