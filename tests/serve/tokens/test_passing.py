"""Which fields go to an engine with a question, and which come back with its own answer."""

from __future__ import annotations

import pytest

from mentatd.http.request import Head, Request
from mentatd.serve.tokens.passing import answer_fields, question_fields, question_target


@pytest.mark.parametrize(
    ("head", "fields"),
    [
        (b"", {}),
        (b"Host: r\r\nContent-Length: 2\r\nExpect: 100-continue\r\n", {}),
        (b"Authorization: Bearer k\r\nX-Api-Key:  k \r\n", {"authorization": "Bearer k", "x-api-key": "k"}),
        (b"X-Two: a\r\nx-two: b, c\r\n", {"x-two": "a, b, c"}),
        (b"X-Text: \xe4:x\r\n", {"x-text": "ä:x"}),
        (
            b"Content-Type: text/plain\r\nContent-Encoding: gzip\r\nAccept-Encoding: br\r\nUser-Agent: x\r\n",
            {},
        ),
        (
            b"Connection: X-Hop, close\r\nX-Hop: 1\r\nTE: trailers\r\nProxy-Connection: x\r\nX: 1\r\n",
            {"x": "1"},
        ),
    ],
)
def test_the_clients_end_to_end_fields_go(head: bytes, fields: dict[str, str]) -> None:
    assert question_fields(Request(Head("POST", b"/x", head))) == fields


def test_the_query_goes() -> None:
    assert question_target("/v1/x", Request(Head("POST", b"/v1/x/"))) == b"/v1/x"
    assert question_target("/v1/x", Request(Head("POST", b"/v1/x?a=1&b?"))) == b"/v1/x?a=1&b?"


def test_the_engines_end_to_end_fields_come_back() -> None:
    sent = (
        (b"date", b"x"),
        (b"server", b"uvicorn"),
        (b"content-type", b"application/json"),
        (b"content-length", b"2"),
        (b"connection", b"keep-alive, X-Hop"),
        (b"connection", b"x-other"),
        (b"keep-alive", b"timeout=5"),
        (b"transfer-encoding", b"chunked"),
        (b"proxy-status", b"x"),
        (b"x-hop", b"1"),
        (b"x-other", b"1"),
        (b"set-cookie", b"a"),
        (b"set-cookie", b"b"),
    )
    assert answer_fields(sent) == ((b"server", b"uvicorn"), (b"set-cookie", b"a"), (b"set-cookie", b"b"))
