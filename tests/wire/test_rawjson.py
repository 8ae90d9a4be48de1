"""Lenient decoding of JSON from the network."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.strategies import json_values

from mentatd.errors import WireError
from mentatd.wire import rawjson
from mentatd.wire.rawjson import decode_object, is_text, is_utf8, kind, show


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'{"a":1}', {"a": 1}),
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        (b'{"a":Infinity}', {"a": float("inf")}),
        (b'{"a":"\\ud800"}', {"a": "\ud800"}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'{"a":' + b"9" * 5000 + b"}", {"a": float("inf")}),
        (b'{"a":NaN,"b":17}', None),
    ],
)
def test_what_lenient_writers_make_is_read(raw: bytes, value: object) -> None:
    found = decode_object(raw)
    assert found["b"] == 17 if value is None else found == value


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"{", "not JSON"),
        (b"[1]", "expected a JSON object, found an array"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":NaN,"b":' + b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_object_is_an_error(raw: bytes, message: str) -> None:
    with pytest.raises(WireError, match=message):
        decode_object(raw)


def test_the_slow_way_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = b'{"a":NaN}'
    monkeypatch.setattr(rawjson, "FALLBACK_LIMIT", len(raw) - 1)
    with pytest.raises(WireError, match="not JSON"):
        decode_object(raw)


@given(st.binary(max_size=64))
def test_any_bytes_give_an_object_or_a_wire_error(raw: bytes) -> None:
    try:
        decode_object(raw)
    except WireError:
        pass


@given(json_values)
def test_any_json_that_python_writes_is_read(value: object) -> None:
    assert list(decode_object(json.dumps({"value": value}).encode())) == ["value"]


@given(value=json_values, piece=st.integers(0, 40), levels=st.integers(0, 5))
def test_a_document_taken_apart_reads_as_it_does_whole(value: object, piece: int, levels: int) -> None:
    text = json.dumps({"value": value}, indent=1).encode()
    with pytest.MonkeyPatch.context() as patch:
        whole = decode_object(text)
        patch.setattr(rawjson, "PIECE", piece)
        patch.setattr(rawjson, "_LEVELS", levels)
        assert repr(decode_object(text)) == repr(whole)


@pytest.mark.parametrize("bad", [b"\xff", b'"\xff"', b'{"a":01}', b"[1,]", b"nul"])
def test_what_is_wrong_deep_inside_a_large_document_is_an_error(
    monkeypatch: pytest.MonkeyPatch, bad: bytes
) -> None:
    monkeypatch.setattr(rawjson, "PIECE", 4)
    with pytest.raises(WireError, match="not JSON"):
        decode_object(b'{"groups":[{"name":"glm","agents":' + bad + b"}]}")


def test_no_piece_of_a_large_document_is_decoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """While `msgspec` decodes, no other thread runs, the event loop's neither."""
    sizes: list[int] = []
    real = msgspec.json.decode

    def noted(raw: bytes) -> object:
        sizes.append(len(raw))
        return real(raw)

    monkeypatch.setattr(msgspec.json, "decode", noted)
    agents = [{"id": f"a{number}", "services": {}} for number in range(10_000)]
    document = {"groups": {"glm": {"agents": agents}, "qwen": {"agents": {"a": agents}}}}
    assert decode_object(json.dumps(document).encode()) == document
    assert max(sizes) <= rawjson.PIECE


def test_a_large_document_behind_much_white_space_is_read_whole() -> None:
    assert decode_object(b" " * rawjson.PIECE + b'{"a":1}') == {"a": 1}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (17, "17"),
        (-(2**80), "a larger number"),
        (1.5, "1.5"),
        ("x" * 10_000, "text"),
        ("\ud800", "text with a lone surrogate"),
        ([1], "an array"),
        ({"a": 1}, "an object"),
    ],
)
def test_values_are_named_for_messages(value: object, words: str) -> None:
    assert kind(value) == words


def test_short_texts_are_shown() -> None:
    assert show("2.0") == "'2.0'"
    assert len(show("x" * 10_000)) == 42
    assert show(2) == "2"


@pytest.mark.parametrize(
    ("value", "good"), [("a", True), ("ü", True), ("😀", True), ("\ud800", False), ("a\udfff", False)]
)
def test_half_a_surrogate_pair_is_no_text(value: str, good: bool) -> None:
    assert is_text(value) is good


@given(st.binary(max_size=40) | st.text(max_size=20).map(str.encode), st.integers(4, 9))
def test_utf8_is_judged_the_same_in_any_steps(raw: bytes, step: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rawjson, "_UTF8_STEP", step)
        judged = is_utf8(memoryview(raw))
    try:
        raw.decode()
    except UnicodeDecodeError:
        assert not judged
    else:
        assert judged


def test_ascii_bytes_are_utf8() -> None:
    assert is_utf8(b"plain")
    assert not is_utf8(b"plain, but for \xff")
