"""Requests of the real world's clients, and of its attackers, through a router to an engine."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from contextlib import closing

import brotli
import pytest
from backports import zstd
from tests.http.shapes import REFUSED, Shape
from tests.support.cluster import JSON, Router
from tests.support.engine import Engine, Exchange

CHAT = "/v1/chat/completions"
HELLO = b'{"model":"tiny","messages":[]}'
SMUGGLED = b"POST /v1/chat/completions HTTP/1.1\r\nHost: r\r\nContent-Length: %d\r\n\r\n%b" % (
    len(HELLO),
    HELLO,
)


def talk(router: Router, data: bytes) -> bytes:
    """What comes back until the router closes."""
    with closing(router.connect()) as sock:
        sock.sendall(data)
        answer = b""
        while piece := sock.recv(65536):
            answer += piece
    return answer


def post(*fields: bytes, body: bytes = b"", version: bytes = b"1.1") -> bytes:
    lines = b"".join(field + b"\r\n" for field in (b"Host: r", *fields))
    return b"POST /v1/chat/completions HTTP/%b\r\n%b\r\n%b" % (version, lines, body)


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


# -- framing attacks

TE = b"Transfer-Encoding: chunked"
LENGTH = b"Content-Length: %d" % len(HELLO)

SMUGGLING = {
    "CL.TE": post(b"Content-Length: %d" % (5 + len(SMUGGLED)), TE, body=b"0\r\n\r\n" + SMUGGLED),
    "TE.CL": post(TE, b"Content-Length: 4", body=chunked(SMUGGLED)),
    "CL.CL": post(LENGTH, b"Content-Length: 0", body=HELLO + SMUGGLED),
    "CL.0": post(b"Content-Length: 0", LENGTH, body=SMUGGLED),
    **{
        f"TE.TE {number}": post(field, b"Content-Length: 5", body=b"0\r\n\r\n" + SMUGGLED)
        for number, field in enumerate(
            (
                b"Transfer-Encoding: xchunked",
                b"Transfer-Encoding : chunked",
                b"Transfer-Encoding:\tchunked",
                b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x",
                b"Transfer-Encoding: x\r\nTransfer-Encoding: chunked",
                b"Transfer-Encoding: x, chunked",
                b"Transfer-Encoding: chunked, identity",
                b"Transfer-Encoding\r\n : chunked",
                b"X: y\nTransfer-Encoding: chunked",
                b"X: y\rTransfer-Encoding: chunked",
                b" Transfer-Encoding: chunked",
                b"Transfer-Encoding: \x0bchunked",
                b'Transfer-Encoding: "chunked"',
                b"Transfer-encoding: identity\r\nTransfer-encoding: cow",
                b"Transfer_Encoding: chunked\r\nTransfer-Encoding: chunked",
            )
        )
    },
    "chunk size that overflows": post(TE, body=b"10000000000000005\r\n" + HELLO[:5] + b"\r\n" + SMUGGLED),
    "bare LF in chunks": post(TE, body=b"5\nhello\n0\n\n" + SMUGGLED),
    "chunk extension with LF": post(TE, body=b"5;\nxx\r\nhello\r\n0\r\n\r\n" + SMUGGLED),
    "chunk longer than said": post(TE, body=b"2\r\nhello\r\n0\r\n\r\n" + SMUGGLED),
    "chunked under 1.0": post(TE, b"Connection: keep-alive", body=chunked(HELLO) + SMUGGLED, version=b"1.0"),
    "trailer that ends early": post(TE, body=chunked(HELLO)[:-2] + b"X\r\n\r\n" + SMUGGLED),
}


@pytest.mark.parametrize("data", SMUGGLING.values(), ids=list(SMUGGLING))
def test_no_second_request_reaches_the_engine(router: Router, engine: Engine, data: bytes) -> None:
    answer = talk(router, data)
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"\r\nConnection: close\r\n" in answer
    assert router.ask("POST", CHAT, HELLO, JSON).status == 200
    assert [request.body for request in engine.posts()] == [HELLO]


@pytest.mark.parametrize("shape", REFUSED, ids=lambda shape: shape.name)
def test_nothing_of_an_attack_reaches_the_engine(router: Router, engine: Engine, shape: Shape) -> None:
    # a path that is forwarded, so that the body would be read
    data = shape.data.replace(b"POST / HTTP", b"POST /v1/chat/completions HTTP", 1)
    answer = talk(router, data + SMUGGLED)
    assert int(answer[9:12]) == shape.status
    assert answer.count(b"HTTP/1.1 ") == 1
    assert not engine.posts()


def test_what_follows_a_request_is_a_request_of_its_own(router: Router, engine: Engine) -> None:
    close = SMUGGLED.replace(b"Host: r", b"Host: r\r\nConnection: close")
    answer = talk(router, post(LENGTH, body=HELLO) + post(TE, body=chunked(HELLO[:9], HELLO[9:])) + close)
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 3
    assert [request.body for request in engine.posts()] == [HELLO] * 3
    assert not any(request.fields("transfer-encoding") for request in engine.posts())


@pytest.mark.parametrize(
    ("start", "status"),
    [
        (b"POST http://r/v1/chat/completions HTTP/1.1", 200),
        (b"POST HTTP://R/v1/chat/completions HTTP/1.1", 200),
        (b"POST http://other/v1/chat/completions HTTP/1.1", 400),
        (b"POST r:80 HTTP/1.1", 400),
    ],
)
def test_an_absolute_target_is_its_path_where_it_names_this_host(
    router: Router, engine: Engine, start: bytes, status: int
) -> None:
    head = start + b"\r\nHost: r\r\nConnection: close\r\n" + LENGTH + b"\r\n\r\n"
    assert int(talk(router, head + HELLO)[9:12]) == status
    assert [request.target for request in engine.posts()] == ([CHAT] if status == 200 else [])


def test_options_of_the_server_is_that_of_its_root(router: Router) -> None:
    def options(target: bytes) -> bytes:
        answer = talk(router, b"OPTIONS %b HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n" % target)
        return b"\r\n".join(line for line in answer.split(b"\r\n") if not line.startswith(b"Date"))

    assert options(b"*") == options(b"/")
    assert options(b"*").startswith(b"HTTP/1.1 204 ")


def test_a_request_that_offers_an_upgrade_is_served_with_its_body(router: Router, engine: Engine) -> None:
    offer = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAAP__")
    closing_one = SMUGGLED.replace(b"Host: r", b"Host: r\r\nConnection: close")
    answer = talk(router, post(*offer, LENGTH, body=HELLO) + closing_one)
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 2
    first = engine.posts()[0]
    assert first.body == HELLO
    assert not first.fields("upgrade") + first.fields("http2-settings") + first.fields("connection")


# -- bodies


@pytest.mark.parametrize(
    ("coding", "encode"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("zstd", zstd.compress), ("br", brotli.compress)],
)
@pytest.mark.parametrize("size", [10, 3_000_000])
def test_a_compressed_body_goes_decoded(
    router: Router, engine: Engine, coding: str, encode: Callable[[bytes], bytes], size: int
) -> None:
    body = json.dumps({"text": "x" * size, "model": "tiny"}).encode()
    assert router.ask("POST", CHAT, encode(body), JSON | {"Content-Encoding": coding}).status == 200
    (request,) = engine.posts()
    assert request.body == body
    assert request.fields("content-encoding") == []
    assert request.fields("content-length") == [str(len(body))]


def test_a_body_that_decodes_to_too_much_is_a_413(router: Router, engine: Engine) -> None:
    bomb = zstd.compress(bytes((128 << 20) + 1))
    assert len(bomb) < 20_000
    answer = router.ask("POST", CHAT, bomb, JSON | {"Content-Encoding": "zstd"})
    assert (answer.status, answer.json["error"]["code"]) == (413, "body_too_large")
    assert not engine.posts()


def test_an_unknown_coding_names_the_known_ones(router: Router, engine: Engine) -> None:
    answer = router.ask("POST", CHAT, HELLO, JSON | {"Content-Encoding": "snappy"})
    assert (answer.status, answer.json["error"]["code"]) == (415, "unknown_encoding")
    assert answer.fields["Accept-Encoding"] == "gzip, deflate, zstd, br"
    assert not engine.posts()


@pytest.mark.parametrize(
    ("sent", "goes"),
    [
        (None, "application/json"),
        ("", "application/json"),
        ("application/x-www-form-urlencoded", "application/json"),
        ("application/x-www-form-urlencoded; charset=UTF-8", "application/json"),
        ("application/json; charset=utf-8", "application/json; charset=utf-8"),
        ("text/plain", "text/plain"),
        ("multipart/form-data; boundary=xyz", "multipart/form-data; boundary=xyz"),
        ("application/vnd.api+json", "application/vnd.api+json"),
        ("what is this", "what is this"),
    ],
)
def test_the_content_type_that_a_json_body_goes_with(
    router: Router, engine: Engine, sent: str | None, goes: str
) -> None:
    fields = {} if sent is None else {"Content-Type": sent}
    assert router.ask("POST", CHAT, HELLO, fields).status == 200
    (request,) = engine.posts()
    assert (request.fields("content-type"), request.body) == ([goes], HELLO)


def multipart(*parts: tuple[bytes, bytes]) -> bytes:
    return (
        b"".join(b"--xyz\r\nContent-Disposition: form-data; %b\r\n\r\n%b\r\n" % part for part in parts)
        + b"--xyz--\r\n"
    )


FILE = b'name="file"; filename="speech.wav"'
DECOY = b'--xy\r\nContent-Disposition: form-data; name="model"\r\n\r\nother\r\n--xyzz\r\n'


@pytest.mark.parametrize("size", [100, 100 << 20])
@pytest.mark.parametrize("model_first", [True, False])
@pytest.mark.timeout(120)
def test_a_form_goes_by_its_text_field_byte_for_byte(
    router: Router, engine: Engine, size: int, model_first: bool
) -> None:
    parts = [(b'name="model"', b"tiny"), (FILE, DECOY + bytes(size))]
    body = multipart(*(parts if model_first else reversed(parts)))
    fields = {"Content-Type": 'multipart/form-data; boundary="xyz"'}
    answer = router.ask("POST", "/v1/audio/transcriptions", body, fields, within_s=60)
    assert answer.json == {"detail": "Not Found"}  # of the engine, which has no such path
    (request,) = engine.posts()
    assert request.body == body
    assert request.fields("content-type") == [fields["Content-Type"]]


def test_a_urlencoded_form_goes_by_its_model(router: Router, engine: Engine) -> None:
    body = b"prompt=a%26model%3Dother&mod%65l=tin%79&x="
    fields = {"Content-Type": "application/x-www-form-urlencoded"}
    assert router.ask("POST", "/submit", body, fields).json == {"detail": "Not Found"}
    (request,) = engine.posts()
    assert request.body == body
    assert request.fields("content-type") == [fields["Content-Type"]]


DEEP = b"[" * 10_000 + b"]" * 10_000


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'\xef\xbb\xbf \r\n\t{"model":"tiny"}', 200),
        (b'{"x":"\\"model\\":\\"other\\"","y":{"model":"other"},"model":"tiny"}', 200),
        (b'{"m\\u006fdel":"t\\u0069ny"}', 200),
        (b'{"model":"tiny","x":"\\ud800","n":1e400,"m":' + b"9" * 6000 + b"}", 200),
        (b'{"model":{"a":1},"model":"tiny"}', 200),
        (b'{"model":"other","model":"tiny","stream":"yes"}', 200),
        (b'{"model":"tiny","model":7}', 400),
        (b'{"model":"tiny","x":' + DEEP + b"}", 400),
        (b'{"model":"tiny","x":"\xff"}', 400),
        (b'[{"model":"tiny"}]', 400),
        (b'{"model":null}', 400),
        (b'{"model":3}', 400),
        (b'{"model":["tiny"]}', 400),
        (b'{"model":""}', 400),
        (b"\xef\xbb\xbf" + b'{"x":"' + b"y" * (9 << 20) + b'","model":"tiny"}', 400),
        (b'{"x":"' + b"y" * (64 << 20) + b'","model":"tiny"}', 200),
    ],
    ids=[str(number) for number in range(16)],
)
def test_odd_json_is_routed_as_engines_read_it_or_refused(
    router: Router, engine: Engine, body: bytes, status: int
) -> None:
    async def whatever(exchange: Exchange) -> None:
        await exchange.answer(b"{}")

    engine.play(CHAT, whatever)
    answer = router.ask("POST", CHAT, body, JSON, within_s=60)
    assert answer.status == status
    assert [request.body for request in engine.posts()] == ([body] if status == 200 else [])
    if status == 400:
        assert len(answer.json["error"]["message"]) > 20
