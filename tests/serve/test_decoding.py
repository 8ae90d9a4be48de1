"""A compressed body becomes plain, or is refused by name."""

from __future__ import annotations

import asyncio
import gzip
import os
import threading
import zlib
from typing import Any

import pytest
from tests.support.deadlines import until

from mentatd.errors import Refusal
from mentatd.http.request import Head, Request
from mentatd.serve import decoding
from mentatd.serve.decoding import INLINE, STEP, codings_of, decode, plain_body, refuse_codings

BODY = b'{"model":"m"}'


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
    assert refuse_codings(()) is refuse_codings(("gzip", "deflate", "zstd", "br")) is None
    refusal = refuse_codings(("gzip", "lzma"))
    assert refusal is not None
    assert (refusal.status, refusal.code) == (415, "unknown_encoding")


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
        ("gzip", gzip.compress(b" " * 1000), 413, "body_too_large"),
    ],
)
async def test_a_body_that_is_refused(coding: str, body: bytes, status: int, code: str) -> None:
    refusal = await plain_body(request(coding, body), 999, reserve)
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.code) == (status, code)


@pytest.mark.parametrize("size", [10, INLINE, INLINE + 1, 2 * STEP + 5])
@pytest.mark.parametrize("compressible", [True, False])
async def test_a_large_body_is_decoded_beside_the_event_loop(
    size: int, compressible: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = set()
    fill = decoding._fill

    def noted(*arguments: Any) -> bool:
        threads.add(threading.current_thread() is threading.main_thread())
        return fill(*arguments)

    monkeypatch.setattr(decoding, "_fill", noted)
    plain = bytes(size) if compressible else os.urandom(size)
    packed = gzip.compress(plain)
    assert await decode(packed, ("gzip",), size, reserve) == plain
    assert (False in threads) == (size > INLINE or len(packed) > INLINE)
    assert (True in threads) == (len(packed) <= INLINE)


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
