"""Reading the head of an answer: where it ends, and what it says of the framing of its body (`framing.py`).

Pure: bytes in, values out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from httptools import HttpParserError, HttpResponseParser

MAX_HEAD: Final = 65536
"""Bytes of one head, the closing blank line included."""
MAX_FIELDS: Final = 256
_KEPT_HEADS: Final = 128
_QUOTED: Final = 80
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n]*)?\r\n")
_FRAMING: Final = re.compile(
    rb"\r\n(content-length|transfer-encoding|connection|keep-alive):[ \t]*([^\r\n]*)", re.IGNORECASE
)
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})[ \t]*(?=\r\n)", re.IGNORECASE)
_LENGTH_DIGITS: Final = 18
_BARE_LF: Final = re.compile(rb"(?<!\r)\n")
_NO_CALLBACKS: Final = object()


class BadAnswer(ValueError):
    """What came is no HTTP/1.x answer that can be passed on; the text says why and quotes it."""


class ResponseHead:
    """A final response head (1xx are consumed silently). Answers whose heads are the same bytes share one."""

    __slots__ = (
        "behind_length",
        "chunked",
        "http10",
        "keep_alive",
        "keep_alive_field",
        "length",
        "note",
        "status",
        "up_to_length",
        "whole",
    )

    status: int
    whole: bytes
    """Status line and field lines as on the wire, the closing blank line included."""
    http10: bool
    length: int | None
    """Content-Length, or 0 where the status or the method allows no body; None when not said."""
    chunked: bool
    keep_alive: bool
    """The connection may be used again after this message (by version, Connection and framing)."""
    keep_alive_field: bytes
    """What `Keep-Alive` says (`timeout=5, max=100`), or empty."""
    up_to_length: bytes
    """What stands up to the number in Content-Length; all of the head where no length counts."""
    behind_length: bytes
    """What stands behind that number; empty where no length counts."""
    note: bool | None
    """What whoever passes answers on has found out about this head, for those that differ in their length only."""

    @property
    def raw(self) -> bytes:
        """Status line and field lines, each ending in CRLF, without the closing blank line."""
        return self.whole[:-2]

    def get(self, name: bytes) -> bytes | None:
        """The value of the first field called `name` (lower case), trimmed."""
        found = _field(name).search(self.whole)
        return found[1].rstrip(b" \t") if found else None

    def fields(self) -> Iterable[tuple[bytes, bytes]]:
        """Every field in order, its name in lower case and its value trimmed."""
        for line in self.raw.split(b"\r\n")[1:-1]:
            name, _, value = line.partition(b":")
            yield name.lower(), value.strip(b" \t")


@lru_cache(maxsize=64)
def _field(name: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"\r\n" + re.escape(name) + rb":[ \t]*([^\r\n]*)", re.IGNORECASE)


def quote(data: bytes) -> str:
    """The first bytes of `data` for an error text, on one line."""
    return repr(data[:_QUOTED])[1:] + ("…" if len(data) > _QUOTED else "")


def head_end(data: bytes, searched: int = 0) -> int:
    """Where the head in `data` ends, its blank line included, or 0 while that has not come.

    `searched` is how much of `data` an earlier call has seen. Raises BadAnswer as soon as it can be no HTTP
    head, or when it is too long.
    """
    end = data.find(b"\r\n\r\n", max(0, searched - 3), MAX_HEAD) + 4
    if end > 3:
        return end
    if not data.startswith(b"HTTP/1.") and not b"HTTP/1.".startswith(data):
        raise BadAnswer(f"not HTTP/1.x: {quote(data)}")
    if _BARE_LF.search(data, max(0, searched - 1)):
        # its blank line may never come in the form that is waited for
        raise BadAnswer(f"a broken head (LF without CR): {quote(data)}")
    if len(data) >= MAX_HEAD:
        raise BadAnswer(f"a head of more than {MAX_HEAD >> 10} KiB")
    return 0


@lru_cache(_KEPT_HEADS)
def read_head(data: bytes, head_request: bool = False) -> ResponseHead:
    """Judge one whole head, its blank line included. `head_request`: it answers a HEAD.

    An engine repeats its heads, within the second of their Date, so the newest are kept.

    llhttp (strict) judges the field lines; what it lets through and is refused here: versions other than 1.0
    and 1.1, chunked under 1.0 and transfer codings other than chunked (RFC 9112 section 6.1), too many
    fields, and 101, which nobody asked for. Raises BadAnswer.
    """
    status_line = _STATUS_LINE.match(data)
    if status_line is None:
        raise BadAnswer(f"not HTTP/1.x: {quote(data)}")
    status = int(status_line[2])
    if status == 101:
        raise BadAnswer("status 101, which was not asked for")
    try:
        HttpResponseParser(_NO_CALLBACKS).feed_data(data)
    except HttpParserError as error:
        raise BadAnswer(f"a broken head ({error}): {quote(data)}") from None
    if data.count(b"\r\n") - 2 > MAX_FIELDS:
        raise BadAnswer(f"a head of more than {MAX_FIELDS} fields")
    head = ResponseHead()
    head.whole = data
    head.note = None
    head.status = status
    head.http10 = status_line[1] == b"0"
    _read_framing(head, _FRAMING.findall(data, status_line.end() - 2), head_request)
    head.up_to_length, head.behind_length = data, b""
    if head.length and not head.chunked and len(counted := list(_LENGTH.finditer(data))) == 1:
        head.up_to_length, head.behind_length = data[: counted[0].start(1)], data[counted[0].end(1) :]
    return head


def read_again(known: ResponseHead, data: bytes) -> ResponseHead | None:
    """The head that `data` begins with, if that is `known` again but for the length of the body.

    An engine repeats its heads within the second of their Date, and what was judged once needs no judge. Neither
    answers a HEAD.
    """
    if not data.startswith(known.up_to_length):
        return None
    behind = known.behind_length
    if not behind:
        return known
    first = len(known.up_to_length)
    last = data.find(behind, first, first + _LENGTH_DIGITS + len(behind))
    if last <= first or not (digits := data[first:last]).isdigit():
        return None
    length, end = int(digits), last + len(behind)
    if length == known.length and end == len(known.whole):  # one number has many spellings
        return known
    head = ResponseHead()
    head.whole = data[:end]
    head.status, head.http10, head.note = known.status, known.http10, known.note
    head.length, head.chunked = length, False
    head.keep_alive, head.keep_alive_field = known.keep_alive, known.keep_alive_field
    head.up_to_length, head.behind_length = known.up_to_length, behind
    return head


def _read_framing(head: ResponseHead, fields: list[tuple[bytes, bytes]], head_request: bool) -> None:
    head.length = None
    head.chunked = False
    head.keep_alive_field = b""
    options: set[bytes] = set()
    for name, value in fields:
        match name.lower():
            case b"content-length":
                head.length = int(value)
            case b"transfer-encoding":
                if head.chunked or head.http10 or value.strip(b" \t").lower() != b"chunked":
                    raise BadAnswer(f"a transfer coding that is not HTTP/1.1 chunked: {quote(value)}")
                head.chunked = True
            case b"keep-alive":
                head.keep_alive_field = value
            case _:
                options.update(option.strip(b" \t") for option in value.lower().split(b","))
    status = head.status
    if head_request or status < 200 or status == 204 or status == 304:
        head.length = 0
        head.chunked = False
    stays = b"keep-alive" in options if head.http10 else True
    head.keep_alive = stays and b"close" not in options and (head.chunked or head.length is not None)
