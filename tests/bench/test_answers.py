"""The bench's answers tell of the body that they answer, and are as long as they say."""

from __future__ import annotations

import json
import zlib

from bench.answers import (
    CHUNK_BYTES,
    DONE,
    MARK,
    STAMP,
    chunk,
    document,
    last,
    listing,
    stream_end,
    told,
    unstamped,
    whole,
)


def payload(wire: bytes) -> bytes:
    """The body under the chunked coding of HTTP."""
    out = b""
    while wire:
        size, _, rest = wire.partition(b"\r\n")
        length = int(size, 16)
        out, wire = out + rest[:length], rest[length + 2 :]
    return out


def test_a_document_tells_the_bodys_checksum_and_length() -> None:
    body = b'{"model":"bench"}'
    fingerprint = json.loads(document(told(body)))["system_fingerprint"]
    assert fingerprint == f"fp_{zlib.crc32(body):08x}_{len(body):010d}"
    assert document(told(body)) != document(told(body.replace(b"n", b"m")))
    assert len(document(told(body))) == len(document(told(b"")))


def test_an_answer_of_known_length_has_that_length() -> None:
    head, _, body = whole(b"four").partition(b"\r\n\r\n")
    assert b"content-length: 4" in head
    assert body == b"four"


def test_a_stream_is_what_its_parts_say() -> None:
    of = told(b"{}")
    body = payload(chunk(7) + chunk(8) + stream_end(of))
    assert STAMP.findall(body) == [b"7".zfill(19), b"8".zfill(19)]
    assert STAMP.sub(MARK, body) == unstamped(2) + last(of)
    assert len(body) == 2 * CHUNK_BYTES + len(last(of))
    events = [json.loads(event.removeprefix(b"data: ")) for event in body.split(b"\n\n")[:-2]]
    assert [event["choices"][0]["finish_reason"] for event in events] == [None, None, "stop"]
    assert events[-1]["system_fingerprint"].encode() == bytes(of)
    assert body.endswith(DONE)


def test_a_listing_names_one_model() -> None:
    assert [entry["id"] for entry in json.loads(listing("g7"))["data"]] == ["g7"]
