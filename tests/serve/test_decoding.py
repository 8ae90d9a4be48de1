"""A compressed body becomes plain, or is refused by name."""

from __future__ import annotations

import asyncio
import gzip
import os
import threading
import zlib

import pytest
from backports import zstd
from tests.support.deadlines import until

from mentatd.errors import Refusal
from mentatd.http.request import Head, Request
from mentatd.serve import decoding
from mentatd.serve.decoding import INLINE, STEP, codings_of, decode, plain_body, refuse_codings
from mentatd.wire.codings import PIECE, Decoding

BODY = b'{"model":"m"}'
EMPTY_BLOCK = b"\0\0\0\xff\xff"
"""A block of raw deflate without a byte."""
LAST_BLOCK = b"\1\0\0\xff\xff"


async def reserve(size: int) -> None:
    """There is room for everything."""


def request(coding: str, body: bytes) -> Request:
    head = f"Content-Encoding: {coding}\r\n".encode() if coding else b""
    return Request(Head("POST", b"/x", head, odd=bool(coding)), body, len(body))


@pytest.mark.parametrize(
    ("coding", "names"),
    [("", ()), ("identity", ()), ("gzip", ("gzip",)), ("deflate, X-GZIP", ("deflate", "gzip"))],
)
def test_the_codings_of_a_request(coding: str, names: tuple[str, ...]) -> None:
    assert codings_of(request(coding, b"")) == names


def test_only_an_unknown_coding_is_refused_unseen() -> None:
    assert refuse_codings(()) is refuse_codings(("gzip", "deflate")) is refuse_codings(("zstd", "br")) is None
    refusal = refuse_codings(("gzip", "lzma"))
    assert refusal is not None
    assert (refusal.status, refusal.code) == (415, "unknown_encoding")


def test_more_codings_than_two_are_refused_unseen() -> None:
    refusal = refuse_codings(("deflate",) * 3)
    assert refusal is not None
    assert (refusal.status, refusal.code) == (415, "unknown_encoding")
    assert "more than 2 codings" in refusal.message


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("", BODY),
        ("identity", BODY),
        ("gzip", gzip.compress(BODY)),
        ("gzip, deflate", zlib.compress(gzip.compress(BODY))),
    ],
)
async def test_a_plain_body(coding: str, body: bytes) -> None:
    assert await plain_body(request(coding, body), len(BODY) + 100, reserve) == BODY


@pytest.mark.parametrize(
    ("coding", "body", "status", "code"),
    [
        ("lzma", BODY, 415, "unknown_encoding"),
        ("gzip", BODY, 400, "invalid_encoding"),
        ("gzip", gzip.compress(BODY)[:-1], 400, "invalid_encoding"),
        ("deflate, deflate, deflate", BODY, 415, "unknown_encoding"),
        ("gzip", gzip.compress(b" " * 1000), 413, "body_too_large"),
        # no byte in the end, and far too many between the codings
        ("deflate, gzip", gzip.compress(EMPTY_BLOCK * 1000), 413, "body_too_large"),
    ],
)
async def test_a_body_that_is_refused(coding: str, body: bytes, status: int, code: str) -> None:
    refusal = await plain_body(request(coding, body), 999, reserve)
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.code) == (status, code)


class Fills:
    """Stands in for `_fill`: notes for each call whether it held the event loop, and what it did."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held: list[int] = []
        self.beside: list[int] = []
        self._fill = decoding._fill
        monkeypatch.setattr(decoding, "_fill", self)

    def __call__(self, plain: bytearray, body: Decoding, work: int, limit: int) -> bool:
        before = body.work
        try:
            return self._fill(plain, body, work, limit)
        finally:
            on_loop = threading.current_thread() is threading.main_thread()
            (self.held if on_loop else self.beside).append(body.work - before)


@pytest.mark.parametrize("size", [10, INLINE // 2, INLINE, 2 * STEP + 5])
@pytest.mark.parametrize("compressible", [True, False])
async def test_a_large_body_is_decoded_beside_the_event_loop(
    size: int, compressible: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fills = Fills(monkeypatch)
    plain = bytes(size) if compressible else os.urandom(size)
    packed = gzip.compress(plain)
    assert await decode(packed, ("gzip",), size, reserve) == plain
    assert bool(fills.beside) == (size + len(packed) > INLINE)
    assert bool(fills.held) == (len(packed) <= INLINE // 2)


@pytest.mark.parametrize(
    ("body", "codings"),
    [
        (EMPTY_BLOCK * 2_000_000 + LAST_BLOCK, ("deflate",)),
        (gzip.compress(EMPTY_BLOCK * 2_000_000 + LAST_BLOCK, 1), ("deflate", "gzip")),
        (gzip.compress(b"") * 3000, ("gzip",)),
        (gzip.compress(gzip.compress(b"") * 3000), ("gzip", "gzip")),
        (zstd.compress(b"") * 200, ("zstd",)),
        (b"\x50\x2a\x4d\x18\0\0\0\0" * 200 + zstd.compress(b""), ("zstd",)),
    ],
)
async def test_what_decodes_to_nothing_holds_nobody_up(
    body: bytes, codings: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    fills = Fills(monkeypatch)
    assert await decode(body, codings, 100_000_000, reserve) == b""
    assert fills.beside
    assert max(fills.held, default=0) <= INLINE + 6 * PIECE
    assert max(fills.beside) <= STEP + 6 * PIECE


async def test_the_limit_is_of_the_decoded_body() -> None:
    packed = gzip.compress(BODY)
    assert await decode(packed, ("gzip",), len(BODY), reserve) == BODY
    refusal = await decode(packed, ("gzip",), len(BODY) - 1, reserve)
    assert isinstance(refusal, Refusal)
    assert "decodes to over 12 bytes" in refusal.message


async def test_memory_is_asked_for_before_it_is_filled() -> None:
    asked: list[int] = []

    async def noted(size: int) -> None:
        asked.append(size)

    packed = gzip.compress(bytes(2 * STEP))
    assert await decode(packed, ("gzip",), 3 * STEP, noted) == bytes(2 * STEP)
    *before, last = asked
    assert last == 2 * STEP
    assert before == sorted(before)
    assert 2 * STEP <= before[-1] - len(packed) <= 3 * STEP


async def test_a_body_that_may_not_grow_waits() -> None:
    asked: list[int] = []
    room = asyncio.Event()

    async def waiting(size: int) -> None:
        asked.append(size)
        if size > STEP:
            await room.wait()

    decoding = asyncio.create_task(decode(gzip.compress(bytes(2 * STEP)), ("gzip",), 3 * STEP, waiting))
    await until(lambda: len(asked) == 1)
    assert not decoding.done()
    room.set()
    assert await decoding == bytes(2 * STEP)
