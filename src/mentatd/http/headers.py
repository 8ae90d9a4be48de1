"""Request heads: bytes to a `Request` or a refusal.

llhttp is the judge of the grammar. What it lets through although two programs could read it differently is refused
here: other versions and start lines, a chunked body under HTTP/1.0 or with a second coding, a missing or second Host,
a target that names another host. Where a body of known length ends is found here, and llhttp has to agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from httptools import HttpParserError, HttpParserInvalidMethodError, HttpParserUpgrade, HttpRequestParser

from mentatd.errors import Refusal
from mentatd.http import refusals
from mentatd.http.limits import HEAD_BYTES, HEAD_FIELDS, PLAIN_BODY_BYTES
from mentatd.http.request import Request

_END: Final = b"\r\n\r\n"
# One empty line before the start line is allowed (RFC 9112 section 2.2).
_START = re.compile(rb"(?:\r\n)?([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([!\"$-~]+) HTTP/1\.([01])\r\n")
_START_SO_FAR = re.compile(rb"\r?\Z|(?:\r\n)?(?:\Z|[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}(?: |\Z))")
_BARE_LF = re.compile(rb"(?<!\r)\n")
# The patterns below run on fields in lower case that begin with the CRLF of the start line.
_ODD = re.compile(
    rb"\r\n(?:connection:(?![ \t]*keep-alive[ \t]*\r\n)|keep-alive:|proxy-|transfer-encoding:|te:|trailer:"
    rb"|upgrade:|expect:|content-encoding:)"
)
_HOST: Final = b"\r\nhost:"
_HOST_LINE = re.compile(
    rb"\r\nhost:[ \t]*((?:[a-z0-9._~%!$&'()*+,;=-]*|\[[0-9a-z.:%~_-]+\])(?::[0-9]{0,5})?)[ \t]*\r\n"
)
_LENGTH: Final = b"\r\ncontent-length:"
# A second Content-Length is refused by llhttp, a longer one overflows in many a parser.
_LENGTH_LINE = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*\r\n")
_ABSOLUTE = re.compile(rb"https?://([^/?]+)([/?].*)?", re.IGNORECASE)
_COPIED_BYTES: Final = 4096  # above it a view of what was read costs less than a copy


class HeadReader:
    """Reads the heads of one connection, in order. Holds at most one incomplete head."""

    __slots__ = ("_complete", "_feed", "_held", "_line_seen", "_peer", "_scanned")

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._held = bytearray()
        self._scanned = 0  # how far `_held` is known to hold no end of a head
        self._line_seen = False
        self._complete = False
        self._feed: Callable[[bytes], object] = HttpRequestParser(self).feed_data

    def close(self) -> None:
        """Nothing is read any more: drop llhttp, which refers back, so that both go without a garbage collection."""
        self._feed = _closed

    @property
    def holding(self) -> bool:
        """Some of a head has been read, but not all; the empty line before one does not count."""
        return bool(self._held) and not _END.startswith(self._held)

    def on_message_complete(self) -> None:
        """Called by llhttp."""
        self._complete = True

    def read(self, data: bytes, now: float) -> tuple[Request | Refusal | None, bytes]:
        """The request or refusal that `data` (behind what is held) begins with, and the bytes that follow it.

        None: the head is not whole yet, and all of `data` is held. A request whose body of at most 128 KiB came whole
        carries it; any other has an empty `body`, and the bytes of its body are the ones that follow. `now` is the
        loop time, for `Request.arrived`. After a refusal nothing more can be read.
        """
        if self._held:
            return self._read_more(data, now)
        end = data.find(_END)
        if end < 0:
            self._held += data
            return self._early(), b""
        return self._judge(data, end, now)

    def _read_more(self, data: bytes, now: float) -> tuple[Request | Refusal | None, bytes]:
        held = self._held
        held += data
        end = held.find(_END, self._scanned)
        if end < 0:
            return self._early(), b""
        data = bytes(held)
        held.clear()
        self._scanned = 0
        self._line_seen = False
        return self._judge(data, end, now)

    def _early(self) -> Refusal | None:
        """Refuse an incomplete head as soon as no more bytes can save it; each byte is looked at once."""
        held = self._held
        if len(held) >= HEAD_BYTES + len(_END):
            return refusals.HEAD_TOO_LARGE
        if _BARE_LF.search(held, self._scanned):
            return refusals.BARE_LF
        if not self._line_seen:
            self._line_seen = held.find(b"\r\n", max(2, self._scanned)) >= 0
            if not (_START if self._line_seen else _START_SO_FAR).match(held):
                return refusals.START_LINE
        self._scanned = max(0, len(held) - len(_END) + 1)
        return None

    def _judge(self, data: bytes, end: int, now: float) -> tuple[Request | Refusal, bytes]:
        start = _START.match(data)
        if start is None:
            return refusals.BARE_LF if _BARE_LF.search(data, 0, end) else refusals.START_LINE, b""
        method, target, minor = start.groups()
        first = start.end() - 2
        lower = data[first : end + 2].lower()
        if end > HEAD_BYTES or lower.count(b"\r\n") > HEAD_FIELDS + 1:
            return refusals.HEAD_TOO_LARGE, b""
        length = _length(lower)
        if length is None:
            return refusals.LENGTH, b""
        http10 = minor == b"0"
        odd = _ODD.search(lower) is not None
        body = end + 4
        stop = body + length
        # llhttp is given a body only where it goes on to the next head from there; else it starts afresh.
        refusal = self._ask_llhttp(data, body, stop == len(data) and not odd and not http10)
        if refusal is not None:
            return refusal, b""
        host = _host(lower, http10)
        if host is None:
            return refusals.HOST, b""
        path = target if target.startswith(b"/") else _origin_form(method, target, host)
        if path is None:
            return refusals.AUTHORITY_FORM, b""
        head = data[first + 2 : end + 2]
        request = Request(method.decode(), path, head, b"", length, odd, http10, self._peer, now, lower)
        if (odd or http10) and not _take_framing(request):
            return refusals.CODING, b""
        if request.length is None or length > PLAIN_BODY_BYTES or stop > len(data):
            return request, data[body:]
        request.body = data[body:stop] if length <= _COPIED_BYTES else memoryview(data)[body:stop]
        return request, data[stop:]

    def _ask_llhttp(self, data: bytes, body: int, whole: bool) -> Refusal | None:
        """Feed it the head of `data`, which ends at `body`, or the `whole` message."""
        self._complete = False
        try:
            self._feed(data if whole else data[:body])
        except HttpParserUpgrade:
            # An Upgrade is not followed (RFC 9110 section 7.8): the message stays HTTP/1.1, with its body.
            pass
        except HttpParserInvalidMethodError:
            return refusals.UNKNOWN_METHOD
        except HttpParserError as error:
            return refusals.malformed(str(error))
        else:
            if whole:
                return None if self._complete else refusals.LENGTH
        self._feed = HttpRequestParser(self).feed_data
        return None


def _closed(data: bytes) -> None:
    raise HttpParserError("closed")


def _length(lower: bytes) -> int | None:
    """Content-Length, 0 where there is none; None when it is no decimal number."""
    line = _LENGTH_LINE.search(lower)
    if line is None:
        return None if _LENGTH in lower else 0
    return int(line[1])


def _host(lower: bytes, http10: bool) -> bytes | None:
    """The one Host, an authority without user information (RFC 9112 section 3.2); empty where HTTP/1.0 has none."""
    if lower.count(_HOST) != 1:
        return b"" if http10 and _HOST not in lower else None
    line = _HOST_LINE.search(lower)
    return None if line is None else line[1]


def _origin_form(method: bytes, target: bytes, host: bytes) -> bytes | None:
    """The path of an absolute-form target (RFC 9112 section 3.2.2) whose authority is the Host, or of `OPTIONS *`."""
    if target == b"*" and method == b"OPTIONS":
        return b"/"
    parts = _ABSOLUTE.fullmatch(target)
    if parts is None or parts[1].lower() != (host or parts[1].lower()):
        return None
    path: bytes = parts[2] or b"/"
    return path if path.startswith(b"/") else b"/" + path


def _take_framing(request: Request) -> bool:
    """Set what the uncommon fields say of the connection and the body; False when the coding is none we take."""
    options = {word.strip() for value in request.get_all(b"connection") for word in value.lower().split(b",")}
    request.keep_alive = b"close" not in options and (not request.http10 or b"keep-alive" in options)
    expectations = request.get_all(b"expect")
    request.expects_continue = not request.http10 and [e.lower() for e in expectations] == [b"100-continue"]
    codings = request.get_all(b"transfer-encoding")
    if codings:
        request.length = None
        return (
            len(codings) == 1
            and codings[0].lower() == b"chunked"
            and not request.http10
            and request.get(b"content-length") is None
        )
    return True
