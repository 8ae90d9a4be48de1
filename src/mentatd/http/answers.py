"""The head of an answer that the server writes itself."""

from __future__ import annotations

import functools
import http.client
from collections.abc import Iterable
from email.utils import formatdate

Fields = Iterable[tuple[bytes, bytes]]

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@functools.cache
def _status_line(status: int) -> bytes:
    return b"HTTP/1.1 %d %b\r\n" % (status, http.client.responses.get(status, "").encode())


@functools.lru_cache(maxsize=1)
def date_line(second: int) -> bytes:
    """The Date line for a Unix time (RFC 9110 section 6.6.1)."""
    return b"Date: %b\r\n" % formatdate(second, usegmt=True).encode()


def render_head(
    status: int,
    length: int,
    content_type: bytes,
    fields: Fields,
    more: bytes = b"",
    *,
    second: int,
    connection: bytes | None,
) -> bytes:
    """Status line, fields and blank line of an answer with `length` bytes of body.

    204 and 304 say nothing of a body (RFC 9110 sections 8.6 and 15.4.5). `more` is whole lines. `second` is Unix time
    for Date, which a server with a clock must send (RFC 9110 section 6.6.1); `connection` is the value of Connection,
    if it needs one.
    """
    lines = [_status_line(status), date_line(second)]
    if status not in (204, 304):
        lines.append(b"Content-Type: %b\r\nContent-Length: %d\r\n" % (content_type, length))
    lines += [b"%b: %b\r\n" % field for field in fields]
    lines.append(more)
    if connection is not None:
        lines.append(b"Connection: %b\r\n" % connection)
    lines.append(b"\r\n")
    return b"".join(lines)
