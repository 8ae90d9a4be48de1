"""What of a head goes on, and what is written anew."""

from __future__ import annotations

import pytest

from mentatd.cluster.targets import parse_target
from mentatd.http.request import Head
from mentatd.serve.forwarding import (
    connection_names,
    passage,
    post_head,
    request_fields,
    response_head,
    uncompressed,
)

HEAD = b"Host: router\r\nAuthorization: Bearer k\r\nContent-Type: application/json\r\nContent-Length: 9\r\n"
KEPT = b"\r\nAuthorization: Bearer k\r\nContent-Type: application/json"


@pytest.mark.parametrize(
    "line",
    [
        b"Connection: keep-alive",
        b"connection: close",
        b"Keep-Alive: timeout=5",
        b"TE: trailers",
        b"Trailer: X-T",
        b"Transfer-Encoding: chunked",
        b"Upgrade: h2c",
        b"Expect: 100-continue",
        b"Proxy-Authorization: Basic x",
        b"Proxy-Connection: keep-alive",
        b"PROXY-ANYTHING:",
        b"hOST: other",
    ],
)
def test_hop_by_hop_fields_of_a_request_stop_here(line: bytes) -> None:
    assert request_fields(HEAD + line + b"\r\n") == KEPT
    assert request_fields(line + b"\r\n" + HEAD) == KEPT


@pytest.mark.parametrize(
    "line",
    [
        b"X-Connection: close",
        b"Hostess: x",
        b"Tea: x",
        b"Content-Encoding: zstd",
        b"Content-Lengthy: 3",
        b"X: connection: close",
        b"Cookie: a=b",
        b"Proxy: not-a-prefix",
        b"X-Bytes: \xe4\xff",
        b"Empty:",
    ],
)
def test_every_other_field_goes_on_as_it_came(line: bytes) -> None:
    assert request_fields(HEAD + line + b"\r\n") == KEPT + b"\r\n" + line


def test_fields_of_one_name_stay_in_order() -> None:
    head = b"X: 1\r\nHost: a\r\nX: 2\r\nHost: b\r\nY: 3\r\n"
    assert request_fields(head) == b"\r\nX: 1\r\nX: 2\r\nY: 3"


def test_fields_that_connection_names_are_dropped() -> None:
    drop = connection_names([b"close, X-Hop", b"\tx-other ,"])
    assert drop == {b"close", b"x-hop", b"x-other"}
    head = b"X-HOP: 1\r\nX-Hopper: 2\r\nx-other: 3\r\nX: 4\r\n"
    assert request_fields(head, drop=drop) == b"\r\nX-Hopper: 2\r\nX: 4"


def test_a_content_type_is_replaced() -> None:
    head = b"Content-Type: application/x-www-form-urlencoded\r\nX: 1\r\ncontent-type: text/plain\r\n"
    json = b"application/json"
    assert request_fields(head, content_type=json) == b"\r\nX: 1\r\nContent-Type: application/json"
    assert request_fields(b"", content_type=json) == b"\r\nContent-Type: application/json"


def test_an_empty_head_stays_empty() -> None:
    assert request_fields(b"") == b""
    assert request_fields(b"Host: a\r\n") == b""


@pytest.mark.parametrize(
    ("base", "target", "line", "host"),
    [
        (
            "http://10.0.0.2:8000/v1",
            b"/v1/chat/completions?a=b",
            b"/v1/chat/completions?a=b",
            b"10.0.0.2:8000",
        ),
        ("http://10.0.0.2:8000/v1", b"/tokenize", b"/tokenize", b"10.0.0.2:8000"),
        ("https://llm.example/api/v1", b"/v1/x", b"/api/v1/x", b"llm.example"),
        ("http://[fd00::1]:8000/v1", b"/v1/%2F..//x", b"/v1/%2F..//x", b"[fd00::1]:8000"),
        ("http://h:1/whole", b"/v1/x", b"/whole/x", b"h:1"),
    ],
)
def test_a_request_is_addressed_to_each_target(base: str, target: bytes, line: bytes, host: bytes) -> None:
    head = post_head(parse_target(base), target, 7, KEPT)
    assert head == b"POST %b HTTP/1.1\r\nHost: %b\r\nContent-Length: 7%b\r\n\r\n" % (line, host, KEPT)


def test_a_plain_answer_goes_on_as_it_came() -> None:
    raw = b"HTTP/1.1 429 \r\ndate: x\r\nServer: e\r\nSet-Cookie: a\r\nset-cookie: b\r\nX: \xe4\r\nRetry-After: 1\r\n"
    assert response_head(raw, coding=True) == raw + b"\r\n"


@pytest.mark.parametrize(
    "line",
    [
        b"Connection: close",
        b"KEEP-ALIVE: timeout=5",
        b"te: x",
        b"Trailer: T",
        b"Upgrade: h2c",
        b"Proxy-Authenticate: B",
    ],
)
def test_hop_by_hop_fields_of_an_answer_stop_here(line: bytes) -> None:
    raw = b"HTTP/1.1 200 OK\r\nA: 1\r\n" + line + b"\r\nB: 2\r\n"
    assert response_head(raw, coding=True) == b"HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\n\r\n"


def test_what_the_answers_connection_names_stops_here() -> None:
    raw = b"HTTP/1.1 200 OK\r\nX-Hop: 1\r\nConnection: x-hop\r\nA: 1\r\nconnection: b\r\nB: 2\r\n"
    assert response_head(raw, coding=True) == b"HTTP/1.1 200 OK\r\nA: 1\r\n\r\n"


@pytest.mark.parametrize("framing", [b"Transfer-Encoding: chunked", b"content-length: 5"])
def test_what_says_where_the_body_ends_stays_whatever_connection_names(framing: bytes) -> None:
    raw = b"HTTP/1.1 200 OK\r\nA: b\r\n" + framing + b"\r\n"
    named = b"Connection: a, Transfer-Encoding\r\nConnection: Content-Length\r\n"
    assert response_head(raw + named, True) == b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n\r\n"


def test_a_stream_is_asked_for_as_it_stands() -> None:
    assert uncompressed(KEPT) == KEPT
    asked = b"\r\nAccept-Encoding: gzip, br" + KEPT + b"\r\naccept-encoding: zstd"
    assert uncompressed(asked) == KEPT + b"\r\nAccept-Encoding: identity"


def test_the_framing_is_written_anew_where_it_must() -> None:
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nA: 1\r\n"
    assert response_head(raw, coding=True) == raw + b"\r\n"
    assert response_head(raw, coding=False) == b"HTTP/1.1 200 OK\r\nA: 1\r\n\r\n"
    added = response_head(raw, coding=False, add=b"Connection: close\r\n")
    assert added == b"HTTP/1.1 200 OK\r\nA: 1\r\nConnection: close\r\n\r\n"


def test_the_routers_version_stands_in_the_status_line() -> None:
    assert response_head(b"HTTP/1.0 404 Not Found\r\n", coding=True) == b"HTTP/1.1 404 Not Found\r\n\r\n"


@pytest.mark.parametrize(
    ("fields", "json_fields", "form_fields"),
    [
        (b"A: 1\r\n", b"\r\nA: 1\r\nContent-Type: application/json", b"\r\nA: 1"),
        (b"Content-Type: text/plain\r\n", b"\r\nContent-Type: text/plain", b"\r\nContent-Type: text/plain"),
        (
            b"Content-Type: application/x-www-form-urlencoded\r\n",
            b"\r\nContent-Type: application/json",
            b"\r\nContent-Type: application/x-www-form-urlencoded",
        ),
    ],
)
def test_json_goes_on_with_a_type_that_engines_take(
    fields: bytes, json_fields: bytes, form_fields: bytes
) -> None:
    known = passage(Head("POST", b"/", fields))
    assert (known.json_fields, known.form_fields) == (json_fields, form_fields)


def test_what_an_odd_head_makes_of_its_forwarding() -> None:
    head = Head("POST", b"/", b"Content-Encoding: gzip, br\r\nConnection: x\r\nX: 1\r\nA: 2\r\n", odd=True)
    known = passage(head)
    assert known.codings == ("gzip", "br")
    assert known.form_fields == b"\r\nA: 2"
    assert head.note is None  # that is the handler's
