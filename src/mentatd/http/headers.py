"""Request heads: bytes to a `Request` or a refusal.

llhttp is the judge of the grammar. What it lets through although two programs could read it differently is refused
here: other versions and start lines, a chunked body under HTTP/1.0 or with a second coding, a missing or second Host,
a target that names another host.

Clients repeat their heads byte for byte, but for the length of the body. So the number in Content-Length is read
first, a head is judged as if it were 0, and the newest verdicts are kept: a known head costs one look-up, and the
one that a connection brought last, two comparisons.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from httptools import HttpParserError, HttpParserInvalidMethodError, HttpParserUpgrade, HttpRequestParser

from mentatd.errors import Refusal
from mentatd.http import refusals
from mentatd.http.limits import HEAD_BYTES, HEAD_FIELDS, PLAIN_BODY_BYTES
from mentatd.http.request import Head, Request

_END: Final = b"\r\n\r\n"
# One empty line before the start line is allowed (RFC 9112 section 2.2).
_START: Final = re.compile(rb"(?:\r\n)?([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([!\"$-~]+) HTTP/1\.([01])\r\n")
_START_SO_FAR: Final = re.compile(rb"\r?\Z|(?:\r\n)?(?:\Z|[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}(?: |\Z))")
_BARE_LF: Final = re.compile(rb"(?<!\r)\n")
# A second Content-Length is refused by llhttp, a longer one overflows in many a parser.
# Not by IGNORECASE, with which the search would stop at every byte and not only at each CRLF.
_LENGTH_LINE: Final = re.compile(
    rb"\r\n[Cc][Oo][Nn][Tt][Ee][Nn][Tt]-[Ll][Ee][Nn][Gg][Tt][Hh]:[ \t]*([0-9]{1,18})[ \t]*(?=\r\n)"
)
_LENGTH_DIGITS: Final = 18
# The patterns below run on fields in lower case that begin with the CRLF of the start line.
_ODD: Final = re.compile(
    rb"\r\n(?:connection:(?![ \t]*keep-alive[ \t]*\r\n)|keep-alive:|proxy-|transfer-encoding:|te:|trailer:"
    rb"|upgrade:|expect:|content-encoding:)"
)
_HOST: Final = b"\r\nhost:"
_HOST_LINE: Final = re.compile(
    rb"\r\nhost:[ \t]*((?:[a-z0-9._~%!$&'()*+,;=-]*|\[[0-9a-z.:%~_-]+\])(?::[0-9]{0,5})?)[ \t]*\r\n"
)
_LENGTH: Final = b"\r\ncontent-length:"
_ABSOLUTE: Final = re.compile(rb"https?://([^/?]+)([/?].*)?", re.IGNORECASE)
_COPIED_BYTES: Final = 4096  # above it a view of what was read costs less than a copy
_KEPT_HEADS: Final = 256
_LARGEST_KEPT: Final = 4096  # with it, what is kept of heads stays under 4 MiB
_LARGEST_HELD: Final = 2048  # each connection may hold one of its own


Judge = Callable[[bytes], Head | Refusal]
"""`judge_head`, as a rule with a memory."""


class HeadReader:
    """Reads the heads of one connection, in order. Holds at most one incomplete head."""

    __slots__ = ("_held", "_judge", "_line_seen", "_newest", "_peer", "_scanned")

    def __init__(self, peer: str, judge: Judge) -> None:
        self._peer = peer
        self._judge = judge
        self._newest: Head | None = None
        self._held = bytearray()
        self._scanned = 0  # how far `_held` is known to hold no end of a head
        self._line_seen = False

    def close(self) -> None:
        """Nothing is read any more: let go of what is held."""
        self._held.clear()

    @property
    def holding(self) -> bool:
        """Some of a head has been read, but not all; the empty line before one does not count."""
        return bool(self._held) and not _END.startswith(self._held)

    def read(self, data: bytes) -> tuple[Request | Refusal | None, bytes]:
        """The request or refusal that `data` (behind what is held) begins with, and the bytes that follow it.

        None: the head is not whole yet, and all of `data` is held. A request whose body of at most 128 KiB came whole
        carries it; any other has an empty `body`, and the bytes of its body are the ones that follow. After a
        refusal nothing more can be read.
        """
        if self._held:
            return self._read_more(data)
        newest = self._newest
        if newest is not None and data.startswith(newest.up_to_length):
            first = len(newest.up_to_length)
            last = data.find(newest.behind_length, first, first + _LENGTH_DIGITS + len(newest.behind_length))
            if last > first and (digits := data[first:last]).isdigit():
                length, body = int(digits), last + len(newest.behind_length)
                if length <= _COPIED_BYTES and body + length == len(data):
                    return Request(newest, data[body:], length, self._peer), b""
                return self._with_body(newest, length, data, body)
        end = data.find(_END)
        if end < 0:
            self._held += data
            return self._early(), b""
        return self._whole(data, end)

    def _read_more(self, data: bytes) -> tuple[Request | Refusal | None, bytes]:
        held = self._held
        held += data
        end = held.find(_END, self._scanned)
        if end < 0:
            return self._early(), b""
        data = bytes(held)
        held.clear()
        self._scanned = 0
        self._line_seen = False
        return self._whole(data, end)

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

    def _whole(self, data: bytes, end: int) -> tuple[Request | Refusal, bytes]:
        """`data` holds a whole head; its closing blank line begins behind the CRLF at `end`."""
        body = end + len(_END)
        line = _LENGTH_LINE.search(data, 0, body)
        if line is None:
            length, text = 0, data[:body]
        else:
            first, last = line.span(1)
            length, text = int(line[1]), data[:first] + b"0" + data[last:body]
        head = self._judge(text) if body <= _LARGEST_KEPT else judge_head(text)
        if isinstance(head, Refusal):
            return head, b""
        self._newest = head if head.up_to_length and body <= _LARGEST_HELD else None
        return self._with_body(head, length, data, body)

    def _with_body(self, head: Head, length: int, data: bytes, body: int) -> tuple[Request, bytes]:
        """The request whose body begins at `body` of `data`."""
        stop = body + length
        if head.chunked or length > PLAIN_BODY_BYTES or stop > len(data):
            return Request(head, b"", None if head.chunked else length, self._peer), data[body:]
        content = data[body:stop] if length <= _COPIED_BYTES else memoryview(data)[body:stop]
        return Request(head, content, length, self._peer), data[stop:]


class _Complete:
    """What llhttp calls."""

    __slots__ = ("complete",)

    def __init__(self) -> None:
        self.complete = False

    def on_message_complete(self) -> None:
        self.complete = True


def judge_head(text: bytes) -> Head | Refusal:
    """Judge one head, its blank line included, whose Content-Length is 0 where it is a number at all."""
    end = len(text) - len(_END)
    start = _START.match(text)
    if start is None:
        return refusals.BARE_LF if _BARE_LF.search(text, 0, end) else refusals.START_LINE
    method, target, minor = start.groups()
    fields = text[start.end() - 2 : end + 2]
    lower = fields.lower()
    if end > HEAD_BYTES or lower.count(b"\r\n") > HEAD_FIELDS + 1:
        return refusals.HEAD_TOO_LARGE
    counted = _LENGTH_LINE.search(fields)
    if counted is None and _LENGTH in lower:
        return refusals.LENGTH
    http10 = minor == b"0"
    odd = _ODD.search(lower) is not None
    refusal = _ask_llhttp(text, ends=not odd and not http10)
    if refusal is not None:
        return refusal
    host = _host(lower, http10)
    if host is None:
        return refusals.HOST
    path = (
        target if target.startswith(b"/") else _origin_form(method, target, host if _HOST in lower else None)
    )
    if path is None:
        return refusals.AUTHORITY_FORM
    if counted is not None:
        fields = fields[: counted.start()] + fields[counted.end() :]
    head = Head(method.decode(), path, fields[2:], odd=odd, http10=http10)
    if counted is not None:
        split = start.end() - 2 + counted.start(1)
        head.up_to_length, head.behind_length = text[:split], text[split + 1 :]
    if (odd or http10) and not _take_framing(head):
        return refusals.CODING
    return refusals.CODING if head.chunked and counted is not None else head


def remembering() -> Judge:
    """`judge_head` with a memory of its own, so that what its heads' `note` holds is one handler's."""
    return lru_cache(_KEPT_HEADS)(judge_head)


def _ask_llhttp(text: bytes, *, ends: bool) -> Refusal | None:
    """`ends`: the message has to end with its head, as it does without a body."""
    events = _Complete()
    try:
        HttpRequestParser(events).feed_data(text)
    except HttpParserUpgrade:
        # An Upgrade is not followed (RFC 9110 section 7.8): the message stays HTTP/1.1, with its body.
        return None
    except HttpParserInvalidMethodError:
        return refusals.UNKNOWN_METHOD
    except HttpParserError as error:
        return refusals.malformed(str(error))
    return refusals.LENGTH if ends and not events.complete else None


def _host(lower: bytes, http10: bool) -> bytes | None:
    """The one Host, an authority without user information (RFC 9112 section 3.2); empty where HTTP/1.0 has none."""
    if lower.count(_HOST) != 1:
        return b"" if http10 and _HOST not in lower else None
    line = _HOST_LINE.search(lower)
    return None if line is None else line[1]


def _origin_form(method: bytes, target: bytes, host: bytes | None) -> bytes | None:
    """The path of an absolute-form target (RFC 9112 section 3.2.2) whose authority is the Host, if there is one (an
    HTTP/1.0 request may have none), or of `OPTIONS *`."""
    if target == b"*" and method == b"OPTIONS":
        return b"/"
    parts = _ABSOLUTE.fullmatch(target)
    if parts is None or host not in (None, parts[1].lower()):
        return None
    path: bytes = parts[2] or b"/"
    return path if path.startswith(b"/") else b"/" + path


def _take_framing(head: Head) -> bool:
    """Set what the uncommon fields say of the connection and the body; False when the coding is none we take."""
    options = {word.strip() for value in head.get_all(b"connection") for word in value.lower().split(b",")}
    head.keep_alive = b"close" not in options and (not head.http10 or b"keep-alive" in options)
    expectations = head.get_all(b"expect")
    head.expects_continue = not head.http10 and [e.lower() for e in expectations] == [b"100-continue"]
    codings = head.get_all(b"transfer-encoding")
    head.chunked = bool(codings)
    return not codings or (len(codings) == 1 and codings[0].lower() == b"chunked" and not head.http10)
