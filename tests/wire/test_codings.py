"""Undoing the content codings of request bodies."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.wire.codings import KNOWN, BadCoding, TooLarge, decode_body, parse_codings, unknown_coding

PLAIN = b'{"model":"m","x":"' + b"y" * 5000 + b'"}'


def raw_deflate(data: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflater.compress(data) + deflater.flush()


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
    assert unknown_coding(("gzip", "br", "zstd")) == "br"


@pytest.mark.parametrize(
    ("body", "codings"),
    [
        (PLAIN, ()),
        (gzip.compress(PLAIN, mtime=0), ("gzip",)),
        (zlib.compress(PLAIN), ("deflate",)),
        (raw_deflate(PLAIN), ("deflate",)),
        (gzip.compress(zlib.compress(PLAIN)), ("deflate", "gzip")),
    ],
)
def test_undoes_the_codings_last_one_first(body: bytes, codings: tuple[str, ...]) -> None:
    assert decode_body(body, codings, len(PLAIN)) == PLAIN
    assert decode_body(memoryview(body), codings, len(PLAIN)) == PLAIN


@pytest.mark.parametrize("body", [gzip.compress(PLAIN, mtime=0), gzip.compress(gzip.compress(PLAIN))])
def test_the_limit_is_on_what_is_decoded(body: bytes) -> None:
    codings = ("gzip",) if gzip.decompress(body) == PLAIN else ("gzip", "gzip")
    assert decode_body(body, codings, len(PLAIN) - 1) == TooLarge()


def test_a_bomb_is_not_unpacked() -> None:
    bomb = zlib.compress(zlib.compress(b"\0" * 20_000_000))
    assert decode_body(bomb, ("deflate", "deflate"), 1000) == TooLarge()


@pytest.mark.parametrize(
    ("body", "coding", "word"),
    [
        (PLAIN, "gzip", "not gzip"),
        (PLAIN, "deflate", "not deflate"),
        (b"", "gzip", "ends before"),
        (b"", "deflate", "ends before"),
        (b"\x78", "deflate", "before|not"),
        (gzip.compress(PLAIN, mtime=0)[:-1], "gzip", "ends before"),
        (gzip.compress(PLAIN, mtime=0) + b"x", "gzip", "bytes follow"),
        (gzip.compress(PLAIN, mtime=0)[:-8] + b"\0" * 8, "gzip", "not gzip"),
    ],
)
def test_says_what_is_wrong(body: bytes, coding: str, word: str) -> None:
    bad = decode_body(body, (coding,), 10_000)
    assert isinstance(bad, BadCoding)
    assert any(part in bad.reason for part in word.split("|"))


@given(st.binary(max_size=50), st.lists(st.sampled_from(KNOWN), max_size=3), st.integers(0, 60))
def test_any_bytes_end_in_a_value(body: bytes, codings: list[str], limit: int) -> None:
    decoded = decode_body(body, tuple(codings), limit)
    if codings and isinstance(decoded, bytes):
        assert len(decoded) <= limit
