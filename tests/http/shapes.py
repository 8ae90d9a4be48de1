"""Requests that programs of this kind have been attacked with, and odd ones that they must take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    name: str
    data: bytes
    status: int = 400
    in_body: bool = False
    """The head alone is in order."""


def _with(
    name: str, *fields: bytes, body: bytes = b"", start: bytes = b"POST / HTTP/1.1", status: int = 400
) -> Shape:
    head = b"".join(field + b"\r\n" for field in (start, b"Host: h", *fields))
    return Shape(name, head + b"\r\n" + body, status)


def _chunked(name: str, body: bytes) -> Shape:
    shape = _with(name, b"Transfer-Encoding: chunked", body=body)
    return Shape(name, shape.data, in_body=True)


_TE = b"Transfer-Encoding: chunked"
_LAST = b"0\r\n\r\n"
_BARE = b"GET / HTTP/1.1\r\n"

REFUSED = [
    # Two framings, or one that programs read differently.
    _with("CL and TE", b"Content-Length: 5", _TE, body=_LAST),
    _with("TE and CL", _TE, b"Content-Length: 5", body=_LAST),
    _with("two lengths", b"Content-Length: 3", b"Content-Length: 4", body=b"abcd"),
    _with("one length twice", b"Content-Length: 3", b"Content-Length: 3", body=b"abc"),
    _with("a good and a bad length", b"Content-Length: 3", b"Content-Length: x", body=b"abc"),
    _with("a bad and a good length", b"Content-Length: x", b"Content-Length: 3", body=b"abc"),
    _with("list of lengths", b"Content-Length: 3, 3", body=b"abc"),
    _with("signed length", b"Content-Length: +3", body=b"abc"),
    _with("negative length", b"Content-Length: -3", body=b"abc"),
    _with("hex length", b"Content-Length: 0x3", body=b"abc"),
    _with("length with an underscore", b"Content-Length: 1_0", body=b"0123456789"),
    _with("length of Unicode digits", "Content-Length: ３".encode(), body=b"abc"),
    _with("empty length", b"Content-Length: ", body=b"abc"),
    _with("length with a gap", b"Content-Length: 3 0", body=b"abc"),
    _with("length that overflows 64 bits", b"Content-Length: 18446744073709551619", body=b"abc"),
    _with("length of 19 digits", b"Content-Length: 0000000000000000003", body=b"abc"),
    _with("TE with another coding", b"Transfer-Encoding: gzip, chunked", body=_LAST),
    _with("TE not ending in chunked", b"Transfer-Encoding: chunked, gzip", body=_LAST),
    _with("TE twice", _TE, _TE, body=_LAST),
    _with("TE identity", b"Transfer-Encoding: identity", body=_LAST),
    _with("TE then identity", _TE, b"Transfer-Encoding: identity", body=_LAST),
    _with("xchunked", b"Transfer-Encoding: xchunked", body=_LAST),
    _with("quoted chunked", b'Transfer-Encoding: "chunked"', body=_LAST),
    _with("chunked with a parameter", b"Transfer-Encoding: chunked;q=1", body=_LAST),
    _with("empty TE", b"Transfer-Encoding:", body=_LAST),
    _with("TE with a comma", b"Transfer-Encoding: ,chunked", body=_LAST),
    _with("TE behind a vertical tab", b"Transfer-Encoding: \x0bchunked", body=_LAST),
    _with("TE behind a NUL", b"Transfer-Encoding: chunked\x00", body=_LAST),
    _with("TE before a space", b"Transfer-Encoding : chunked", body=_LAST),
    _with("folded TE", b"Transfer-Encoding:\r\n chunked", body=_LAST),
    _with("TE behind a bare CR", b"X: y\rTransfer-Encoding: chunked", body=_LAST),
    _with("TE behind a bare LF", b"X: y\nTransfer-Encoding: chunked", body=_LAST),
    _with("chunked under 1.0", _TE, body=_LAST, start=b"POST / HTTP/1.0"),
    # Start lines.
    _with("HTTP/0.9", start=b"GET / HTTP/0.9"),
    _with("HTTP/1.2", start=b"GET / HTTP/1.2"),
    _with("HTTP/2.0", start=b"GET / HTTP/2.0"),
    _with("HTTP/1.10", start=b"GET / HTTP/1.10"),
    _with("HTTP/01.1", start=b"GET / HTTP/01.1"),
    _with("lower-case version", start=b"GET / http/1.1"),
    _with("RTSP", start=b"DESCRIBE / RTSP/1.0"),
    _with("ICE", start=b"SOURCE / ICE/1.0"),
    _with("no version", start=b"GET /"),
    _with("two spaces", start=b"GET  / HTTP/1.1"),
    _with("two spaces before the version", start=b"GET /  HTTP/1.1"),
    _with("space behind the version", start=b"GET / HTTP/1.1 "),
    _with("space before the method", start=b" GET / HTTP/1.1"),
    _with("tab for a space", start=b"GET\t/ HTTP/1.1"),
    _with("space in the target", start=b"GET /a b HTTP/1.1"),
    _with("no target", start=b"GET HTTP/1.1"),
    _with("fragment", start=b"GET /a#b HTTP/1.1"),
    _with("raw non-ASCII in the target", start="GET /ü HTTP/1.1".encode()),
    _with("control byte in the target", start=b"GET /\x01 HTTP/1.1"),
    _with("NUL in the target", start=b"GET /\x00 HTTP/1.1"),
    _with("method with a colon", start=b"GET: / HTTP/1.1"),
    _with("long method", start=b"G" * 40 + b" / HTTP/1.1"),
    _with("unknown method", start=b"FOO / HTTP/1.1", status=501),
    _with("lower-case method", start=b"get / HTTP/1.1", status=501),
    Shape("preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    Shape("two empty lines first", b"\r\n\r\n" + _BARE + b"Host: h\r\n\r\n"),
    Shape("bare LF behind the start line", b"GET / HTTP/1.1\nHost: h\r\n\r\n"),
    # Targets and hosts.
    _with("authority form", start=b"GET h:80 HTTP/1.1"),
    _with("CONNECT", start=b"CONNECT h:80 HTTP/1.1"),
    _with("* of a GET", start=b"GET * HTTP/1.1"),
    _with("absolute form of another host", start=b"GET http://other/ HTTP/1.1"),
    _with("absolute form with a user", start=b"GET http://u@h/ HTTP/1.1"),
    Shape("absolute form beside an empty host", b"GET http://h/ HTTP/1.1\r\nHost:\r\n\r\n"),
    _with("another scheme", start=b"GET ftp://h/ HTTP/1.1"),
    _with("relative path", start=b"GET a/b HTTP/1.1"),
    _with("two hosts", b"Host: h"),
    _with("two hosts under 1.0", b"Host: i", start=b"GET / HTTP/1.0"),
    Shape("no host", b"GET / HTTP/1.1\r\nX: y\r\n\r\n"),
    Shape("host with a path", _BARE + b"Host: h/x\r\n\r\n"),
    Shape("host with a user", _BARE + b"Host: u@h\r\n\r\n"),
    Shape("host with a gap", _BARE + b"Host: h i\r\n\r\n"),
    Shape("host with a named port", _BARE + b"Host: h:http\r\n\r\n"),
    Shape("host with an open bracket", _BARE + b"Host: [::1\r\n\r\n"),
    # Fields.
    _with("space before the colon", b"X : y"),
    _with("folded line", b"X: y", b" z"),
    _with("line folded by a tab", b"X: y", b"\tz"),
    Shape("first line folded", _BARE + b" Host: h\r\n\r\n"),
    _with("no colon", b"X"),
    _with("empty name", b": y"),
    _with("name with a space", b"X Y: z"),
    _with("name with a NUL", b"X\x00: z"),
    _with("name with non-ASCII", b"X\xff: z"),
    _with("name with a parenthesis", b"X(: z"),
    _with("value with a NUL", b"X: a\x00b"),
    _with("value with a control byte", b"X: a\x01b"),
    _with("value with DEL", b"X: a\x7fb"),
    _with("value with a bare CR", b"X: a\rb"),
    _with("CR before the CRLF", b"X: a\r"),
    Shape("bare LF behind a field", _BARE + b"Host: h\nX: y\r\n\r\n"),
    Shape("bare LF ends the head", _BARE + b"Host: h\r\n\nGET /x HTTP/1.1\r\nHost: h\r\n\r\n"),
    Shape("head ends in LF LF", _BARE + b"Host: h\n\nGET /x HTTP/1.1\r\nHost: h\r\n\r\n"),
    Shape("too many fields", _BARE + b"Host: h\r\n" + b"X: y\r\n" * 256 + b"\r\n", 431),
    Shape("too large a head", _BARE + b"Host: h\r\nX: " + b"x" * 65536 + b"\r\n\r\n", 431),
    # Chunks.
    _chunked("bare LF behind a size", b"3\nabc\r\n" + _LAST),
    _chunked("bare LF behind a chunk", b"3\r\nabc\n" + _LAST),
    _chunked("bare LF behind the last chunk", b"3\r\nabc\r\n0\n\r\n"),
    _chunked("bare LF ends the trailers", b"3\r\nabc\r\n0\r\n\n"),
    _chunked("chunk longer than its size", b"3\r\nabcd\r\n" + _LAST),
    _chunked("no size", b"\r\nabc\r\n" + _LAST),
    _chunked("no hex", b"g\r\nabc\r\n" + _LAST),
    _chunked("0x", b"0x3\r\nabc\r\n" + _LAST),
    _chunked("signed size", b"+3\r\nabc\r\n" + _LAST),
    _chunked("negative size", b"-3\r\nabc\r\n" + _LAST),
    _chunked("size with an underscore", b"0_3\r\nabc\r\n" + _LAST),
    _chunked("space before a size", b" 3\r\nabc\r\n" + _LAST),
    _chunked("space behind a size", b"3 \r\nabc\r\n" + _LAST),
    _chunked("size over 64 bits", b"10000000000000003\r\nabc\r\n" + _LAST),
    _chunked("size over 63 bits", b"8000000000000003\r\nabc\r\n" + _LAST),
    _chunked("bare CR in an extension", b"3;a\rb\r\nabc\r\n" + _LAST),
    _chunked("NUL in an extension", b"3;a\x00b\r\nabc\r\n" + _LAST),
    _chunked("white space before an extension", b"3 ;a\r\nabc\r\n" + _LAST),
    _chunked("white space in an extension", b"3; a\r\nabc\r\n" + _LAST),
    _chunked("extension without a name", b"3;\r\nabc\r\n" + _LAST),
    _chunked("long extension", b"3;" + b"a" * 4096 + b"\r\nabc\r\n" + _LAST),
    _chunked("trailer without a colon", b"0\r\nX\r\n\r\n"),
    _chunked("folded trailer", b"0\r\nX: y\r\n z\r\n\r\n"),
    _chunked("endless trailers", b"0\r\n" + b"X: yyyyyyyy\r\n" * 6000 + b"\r\n"),
]

TAKEN = [
    _with("plain", b"Content-Length: 3", body=b"abc"),
    _with("length with blanks", b"Content-Length:\t 3 \t", body=b"abc"),
    _with("length with zeros", b"Content-Length: 0003", body=b"abc"),
    _with("chunked in capitals", b"TRANSFER-ENCODING: CHUNKED", body=_LAST),
    _with("no body", start=b"GET /?a=%20&b=~ HTTP/1.1"),
    _with("empty value", b"X:"),
    _with("latin-1 value", b"X: \xfc\xff"),
    _with("tab in a value", b"X: a\tb"),
    _with("WebSocket upgrade", b"Connection: Upgrade", b"Upgrade: websocket", start=b"GET /ws HTTP/1.1"),
    _with("h2c upgrade", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: x"),
    _with(
        "h2c upgrade with a body", b"Connection: upgrade", b"Upgrade: h2c", b"Content-Length: 3", body=b"abc"
    ),
    _with("absolute form", start=b"GET http://h/x HTTP/1.1"),
    _with("OPTIONS *", start=b"OPTIONS * HTTP/1.1"),
    _with("HTTP/1.0", b"Content-Length: 3", body=b"abc", start=b"POST / HTTP/1.0"),
    Shape("HTTP/1.0 without a host", b"GET / HTTP/1.0\r\n\r\n"),
    Shape("an empty line first", b"\r\n" + _BARE + b"Host: h\r\n\r\n"),
    Shape("IPv6 host", _BARE + b"Host: [fe80::1%25eth0]:6381\r\n\r\n"),
    Shape("empty host", _BARE + b"Host:\r\n\r\n"),
    Shape("host in capitals", _BARE + b"HOST: Node-1.Local:6381\r\n\r\n"),
]
