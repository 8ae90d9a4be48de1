"""Reading fields off a raw head."""

from __future__ import annotations

import pytest

from mentatd.http.request import Head, Request

HEAD = b"Host: a\r\nX-Two: 1\r\nX-TWO:\t 2 \r\nEmpty:\r\nX-Two-More: 3\r\nLast: z\r\n"


@pytest.mark.parametrize(
    ("name", "first", "every"),
    [
        (b"host", b"a", [b"a"]),
        (b"x-two", b"1", [b"1", b"2"]),
        (b"empty", b"", [b""]),
        (b"last", b"z", [b"z"]),
        (b"x", None, []),
        (b"two", None, []),
        (b"a", None, []),
    ],
)
def test_fields_are_found_by_their_whole_name(name: bytes, first: bytes | None, every: list[bytes]) -> None:
    request = Request(Head("GET", b"/", HEAD))
    assert request.get(name) == first
    assert request.get_all(name) == every


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/", "/", ""),
        (b"/v1/models?a=b?c", "/v1/models", "a=b?c"),
        (b"/v1/models/a%2Fb", "/v1/models/a%2Fb", ""),
        (b"/?", "/", ""),
    ],
)
def test_the_target_is_path_and_query(target: bytes, path: str, query: str) -> None:
    request = Request(Head("GET", target))
    assert (request.path, request.query) == (path, query)
