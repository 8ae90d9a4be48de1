"""Undoing the content codings of request bodies."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import zlib
from collections.abc import Callable, Sequence
from random import Random

import brotli
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from mentatd.wire.codings import KNOWN, PIECE, decoded, parse_codings, unknown_coding

PLAIN = b'{"model":"m","x":"' + b"y" * 5000 + b'"}'
LONG = b"z" * 500_000 + Random(1).randbytes(100_000) + bytes(1_000_000)


def raw_deflate(data: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflater.compress(data) + deflater.flush()


def gzipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


ENCODERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzipped),
    ("deflate", zlib.compress),
    ("deflate", raw_deflate),
    ("zstd", zstd.compress),
    ("br", brotli.compress),
]


def decode(body: bytes | memoryview, *codings: str) -> bytes:
    return b"".join(decoded(body, codings))


@pytest.mark.parametrize(
    ("values", "codings"),
    [
        ([], ()),
        ([b""], ()),
        ([b"identity"], ()),
        ([b"gzip"], ("gzip",)),
        ([b" GZIP ,\tdeflate,"], ("gzip", "deflate")),
        ([b"x-gzip", b"identity, br"], ("gzip", "br")),
        ([b"gz\xffp"], ("gzÿp",)),
    ],
)
def test_reads_the_fields(values: list[bytes], codings: tuple[str, ...]) -> None:
    assert parse_codings(values) == codings


def test_names_the_first_unknown_coding() -> None:
    assert unknown_coding(()) is None
    assert unknown_coding(KNOWN) is None
    assert unknown_coding(("gzip", "lzma", "compress")) == "lzma"


@pytest.mark.parametrize("plain", [b"", b"x", PLAIN, LONG], ids=["empty", "byte", "plain", "long"])
@pytest.mark.parametrize(("coding", "encode"), ENCODERS)
def test_undoes_each_coding(coding: str, encode: Callable[[bytes], bytes], plain: bytes) -> None:
    assert decode(encode(plain), coding) == plain
    assert decode(memoryview(encode(plain)), coding) == plain


def test_a_body_without_codings_comes_as_it_is() -> None:
    assert decode(LONG) == LONG
    assert decode(b"") == b""


@pytest.mark.parametrize(("inner", "outer"), list(itertools.product(ENCODERS, repeat=2)))
def test_undoes_the_last_coding_first(
    inner: tuple[str, Callable[[bytes], bytes]], outer: tuple[str, Callable[[bytes], bytes]]
) -> None:
    assert decode(outer[1](inner[1](LONG)), inner[0], outer[0]) == LONG


@pytest.mark.parametrize(("coding", "encode"), ENCODERS)
def test_a_bomb_comes_in_small_pieces(coding: str, encode: Callable[[bytes], bytes]) -> None:
    bomb = encode(encode(bytes(20_000_000)))
    sizes = [len(piece) for piece in decoded(bomb, (coding, coding))]
    assert sum(sizes) == 20_000_000
    assert max(sizes) <= 2 * PIECE


def test_frames_of_zstd_may_follow_each_other() -> None:
    skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc"
    assert (
        decode(zstd.compress(b"a") + skipped + zstd.compress(b"") + zstd.compress(LONG), "zstd")
        == b"a" + LONG
    )


@pytest.mark.parametrize(
    ("body", "coding", "word"),
    [
        (PLAIN, "gzip", "not gzip"),
        (PLAIN, "deflate", "not deflate"),
        (PLAIN, "zstd", "not zstd"),
        (PLAIN, "br", "not brotli"),
        *((b"", coding, "ends before") for coding in KNOWN),
        (b"\x78", "deflate", "before|not"),
        *((encode(LONG)[:-1], coding, "ends before") for coding, encode in ENCODERS),
        (gzipped(PLAIN) + b"x", "gzip", "bytes follow"),
        (gzipped(PLAIN) + bytes(PIECE), "gzip", "bytes follow"),
        (zstd.compress(PLAIN) + b"xxxx", "zstd", "not zstd"),
        (zstd.compress(PLAIN) + zstd.compress(PLAIN)[:-1], "zstd", "ends before"),
        (zstd.compress(b"") * 5000, "zstd", "4096 frames"),
        (brotli.compress(PLAIN) + b"x", "br", "not brotli"),
        (brotli.compress(PLAIN) + bytes(PIECE), "br", "not brotli"),
        (gzipped(PLAIN)[:-8] + bytes(8), "gzip", "not gzip"),
    ],
)
def test_says_what_is_wrong(body: bytes, coding: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        decode(body, coding)


def test_a_frame_of_zstd_may_not_ask_for_a_larger_window_than_a_server_must_have() -> None:
    options: dict[int, int] = {
        zstd.CompressionParameter.window_log: 24,
        zstd.CompressionParameter.compression_level: 1,
    }
    frame = zstd.compress(bytes(30_000_000), options=options)
    with pytest.raises(ValueError, match="too much memory"):
        decode(frame, "zstd")


@given(st.binary(max_size=50), st.lists(st.sampled_from(KNOWN), max_size=3))
def test_any_bytes_end_in_a_body_or_a_reason(body: bytes, codings: Sequence[str]) -> None:
    with contextlib.suppress(ValueError):
        decode(body, *codings)


@given(st.sampled_from(ENCODERS), st.integers(0), st.binary(min_size=1, max_size=4))
def test_any_damage_ends_in_a_body_or_a_reason(
    encoder: tuple[str, Callable[[bytes], bytes]], at: int, damage: bytes
) -> None:
    coding, encode = encoder
    body = encode(PLAIN)
    at %= len(body)
    with contextlib.suppress(ValueError):
        decode(body[:at] + damage + body[at + len(damage) :], coding)
