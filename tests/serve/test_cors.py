"""Which pages may read, and which may send: the fields, the preflight, the refusal."""

from __future__ import annotations

import pytest

from mentatd.http.request import Head, Request
from mentatd.serve.cors import Cors, Origin, is_here, parse_origin, without_cors

CHAT = "https://chat.example"
OFF, LISTED, EVERYBODY = Cors(), Cors(frozenset({CHAT, "http://a:1"})), Cors(frozenset({"*"}))
ALLOW = b"Access-Control-Allow-Origin: "
EXPOSE = b"\r\nAccess-Control-Expose-Headers: *\r\n"


def request(method: str = "POST", **fields: str) -> Request:
    head = "".join(
        f"{name.replace('_', '-')}: {value}\r\n" for name, value in {"Host": "box:6381", **fields}.items()
    )
    return Request(Head(method, b"/v1/x", head.encode("latin-1")))


@pytest.mark.parametrize(
    ("value", "origin"),
    [
        ("https://chat.example", Origin("https", "chat.example", "443")),
        ("HTTP://Box:6381", Origin("http", "box", "6381")),
        ("http://[::1]", Origin("http", "[::1]", "80")),
        ("tauri://localhost", Origin("tauri", "localhost", "")),
        ("null", None),
        ("", None),
        ("box:6381", None),
        ("http://evil.example#@box", None),
        ("http://box/path", None),
        ("http://box http://evil.example", None),
    ],
)
def test_an_origin_is_taken_apart(value: str, origin: Origin | None) -> None:
    assert parse_origin(value.encode()) == origin


@pytest.mark.parametrize(
    ("origin", "host", "here"),
    [
        ("http://box:6381", b"box:6381", True),
        ("http://box", b"BOX", True),
        ("https://box", b"box:443", True),
        ("http://box", b"box:6381", False),
        ("http://other:6381", b"box:6381", False),
        ("tauri://box", b"box", False),
        ("http://box", b"", False),
        ("http://box", None, False),
    ],
)
def test_a_page_of_this_host(origin: str, host: bytes | None, here: bool) -> None:
    page = parse_origin(origin.encode())
    assert page is not None
    assert is_here(page, host) is here


@pytest.mark.parametrize(
    ("cors", "asked", "fields"),
    [
        (EVERYBODY, request(), ALLOW + b"*" + EXPOSE),
        (EVERYBODY, request(Origin=CHAT), ALLOW + b"*" + EXPOSE),
        (EVERYBODY, None, ALLOW + b"*" + EXPOSE),
        (LISTED, request(Origin=CHAT), ALLOW + CHAT.encode() + EXPOSE + b"Vary: Origin\r\n"),
        (LISTED, request(Origin="http://A:1"), ALLOW + b"http://A:1" + EXPOSE + b"Vary: Origin\r\n"),
        (LISTED, request(Origin="http://a:2"), b"Vary: Origin\r\n"),
        (LISTED, request(Origin="null"), b"Vary: Origin\r\n"),
        (LISTED, request(), b"Vary: Origin\r\n"),
        (LISTED, None, b"Vary: Origin\r\n"),
    ],
)
def test_what_every_answer_carries(cors: Cors, asked: Request | None, fields: bytes) -> None:
    assert cors.fields(asked) == fields


def test_what_a_preflight_is_told() -> None:
    asked = request(
        "OPTIONS",
        Origin=CHAT,
        Access_Control_Request_Method="POST",
        Access_Control_Request_Headers="authorization,content-type",
    )
    told = dict(LISTED.preflight(asked.head, b"POST, OPTIONS"))
    assert told[b"Access-Control-Allow-Methods"] == b"POST, OPTIONS"
    assert told[b"Access-Control-Allow-Headers"] == b"authorization,content-type"
    assert int(told[b"Access-Control-Max-Age"]) > 0
    assert b"Access-Control-Allow-Headers" not in dict(LISTED.preflight(request(Origin=CHAT).head, b"POST"))
    assert EVERYBODY.preflight(asked.head, b"POST")
    assert LISTED.preflight(request(Origin="http://other").head, b"POST") == ()
    assert OFF.preflight(asked.head, b"POST") == ()


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin", "none", None])
@pytest.mark.parametrize(
    ("cors", "origin", "foreign"),
    [
        (OFF, CHAT, True),
        (OFF, "null", True),
        (OFF, "http://box:6381", False),
        (OFF, None, False),
        (LISTED, CHAT, False),
        (LISTED, "https://evil.example", True),
        (LISTED, "http://box:6381", False),
        (EVERYBODY, CHAT, False),
        (EVERYBODY, "null", False),
    ],
)
def test_who_may_not_send(cors: Cors, origin: str | None, foreign: bool, site: str | None) -> None:
    fields = {} if origin is None else {"Origin": origin}
    if site is not None:
        fields["Sec_Fetch_Site"] = site
    assert cors.refuses(request(**fields).head) is (foreign and site == "cross-site")


def test_off_is_false() -> None:
    assert (bool(OFF), bool(LISTED), bool(EVERYBODY)) == (False, True, True)
    assert not OFF.allows(CHAT.encode())


def test_an_engines_own_opinion_does_not_pass() -> None:
    head = b"HTTP/1.1 200 OK\r\naccess-control-allow-origin: *\r\nA: 1\r\nAccess-Control-Allow-Credentials: true\r\n"
    assert without_cors(head) == b"HTTP/1.1 200 OK\r\nA: 1\r\n"
