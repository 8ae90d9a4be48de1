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

from mentatd.wire.codings import KNOWN, PIECE, Decoding, parse_codings, unknown_coding

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
    return b"".join(Decoding(body, codings))


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
    sizes = [len(piece) for piece in Decoding(bomb, (coding, coding))]
    assert sum(sizes) == 20_000_000
    assert max(sizes) <= 2 * PIECE


EMPTY_BLOCK = b"\0\0\0\xff\xff"
"""A stored block of raw deflate without a byte."""
EMPTY_BLOCKS = EMPTY_BLOCK * 200_000
LAST_BLOCK = b"\1\0\0\xff\xff"


def stored(data: bytes) -> bytes:
    """The last block of raw deflate, with `data` as it is."""
    size = len(data).to_bytes(2, "little")
    return b"\1" + size + bytes(255 - byte for byte in size) + data


@pytest.mark.parametrize(("inner", "outer"), list(itertools.pairwise([*ENCODERS, ENCODERS[0]])))
def test_what_each_coding_takes_and_gives_is_counted(
    inner: tuple[str, Callable[[bytes], bytes]], outer: tuple[str, Callable[[bytes], bytes]]
) -> None:
    once = inner[1](LONG)
    twice = outer[1](once)
    decoding = Decoding(twice, (inner[0], outer[0]))
    size = sum(map(len, decoding))
    assert decoding.largest == size == len(LONG)
    assert decoding.work >= len(twice) + 2 * len(once) + size


def test_the_coding_that_gives_the_most_may_be_any() -> None:
    decoding = Decoding(gzipped(EMPTY_BLOCKS + LAST_BLOCK), ("deflate", "gzip"))
    assert b"".join(decoding) == b""
    assert decoding.largest == len(EMPTY_BLOCKS + LAST_BLOCK)


@pytest.mark.parametrize(
    ("body", "codings"),
    [
        (EMPTY_BLOCKS + LAST_BLOCK, ("deflate",)),
        (raw_deflate(EMPTY_BLOCKS + LAST_BLOCK), ("deflate", "deflate")),
        (EMPTY_BLOCKS + stored(brotli.compress(b"")), ("br", "deflate")),
        (EMPTY_BLOCKS + stored(zlib.compress(b"")), ("deflate", "deflate")),
        (gzipped(b"") * 4000, ("gzip",)),
        (raw_deflate(gzipped(b"") * 4000), ("gzip", "deflate")),
        (zstd.compress(b"") * 4000, ("zstd",)),
        (b"\x50\x2a\x4d\x18\0\0\0\0" * 4000 + zstd.compress(b""), ("zstd",)),
        (gzipped(brotli.compress(bytes(20_000_000))), ("br", "gzip")),
    ],
)
def test_whoever_iterates_may_stop_between_any_two_calls(body: bytes, codings: tuple[str, ...]) -> None:
    decoding = Decoding(body, codings)
    works = [0, *(decoding.work for _ in decoding)]
    assert max(after - before for before, after in itertools.pairwise(works)) <= 6 * PIECE
    assert works[-1] == decoding.work > len(body)


def test_a_call_counts_though_it_takes_and_gives_next_to_nothing() -> None:
    frames = zstd.compress(b"") * 100
    decoding = Decoding(frames, ("zstd",))
    assert b"".join(decoding) == b""
    assert decoding.work >= 100 * 4096


def test_iterating_goes_on_where_it_was_left() -> None:
    decoding = Decoding(gzipped(LONG), ("gzip",))
    assert b"".join([next(iter(decoding)), *decoding]) == LONG


@given(st.integers(0, 2 * PIECE), st.integers(0, 2 * PIECE))
def test_members_of_gzip_may_follow_each_other_anywhere(first: int, second: int) -> None:
    noise = Random(first).randbytes(first)
    members = gzip.compress(noise, 0) + gzipped(b"") + gzip.compress(noise[:second], 0)
    assert decode(members, "gzip") == noise + noise[:second]


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
        (zlib.compress(PLAIN) + zlib.compress(PLAIN), "deflate", "bytes follow"),
        (gzipped(PLAIN) + gzipped(PLAIN)[:-1], "gzip", "ends before"),
        (gzipped(PLAIN) + b"\x1f", "gzip", "ends before"),
        (gzipped(PLAIN) + b"\x1fx", "gzip", "not gzip"),
        (gzipped(b"") * 5000, "gzip", "4096 members"),
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
