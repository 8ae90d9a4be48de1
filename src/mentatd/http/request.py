"""One request, as the server hands it to its handler."""

from __future__ import annotations

from typing import Any

Body = bytes | memoryview
"""A request body, whole and without chunk framing; a large one is a view of an anonymous memory map."""


class Head:
    """What one request head says, but for the length of the body.

    Requests whose heads are alike share one, so it is not changed once it is read.
    """

    __slots__ = (
        "_lower",
        "behind_length",
        "chunked",
        "expects_continue",
        "fields",
        "http10",
        "keep_alive",
        "method",
        "note",
        "odd",
        "path",
        "query",
        "target",
        "up_to_length",
    )

    def __init__(
        self, method: str, target: bytes, fields: bytes = b"", *, odd: bool = False, http10: bool = False
    ) -> None:
        self.method = method
        self.target = target
        """Origin form, as on the wire (an absolute-form target already reduced to its path, `*` to `/`)."""
        path, _, query = target.decode("latin-1").partition("?")
        self.path = path
        """The target up to `?`, not percent-decoded (latin-1)."""
        self.query = query
        """What follows `?`, or empty."""
        self.fields = fields
        """The raw field lines, each ending in CRLF, without Content-Length, the start line and the closing blank
        line."""
        self.odd = odd
        """It holds a field that may not simply pass on (hop-by-hop, Expect, Transfer-Encoding, Content-Encoding, or
        a Connection other than keep-alive): the slow path must rewrite it."""
        self.http10 = http10
        self.chunked = False
        """The length of the body is not announced."""
        self.keep_alive = not http10
        """The client would use the connection again (RFC 9112 section 9.3)."""
        self.expects_continue = False
        """The client waits for `100 Continue` before it sends the body (RFC 9110 section 10.1.1)."""
        self.up_to_length = b""
        """What stands on the wire up to the number in Content-Length; empty where there is none."""
        self.behind_length = b""
        """What stands behind that number, the closing blank line included."""
        self.note: Any = None
        """What the handler has worked out from this head, for the next request that shares it."""
        self._lower = b"\r\n" + fields.lower()

    def get(self, name: bytes) -> bytes | None:
        """The value of the first field called `name` (lower case), trimmed; None when absent."""
        # `_lower` is CRLF and then `fields` in lower case, so an offset in it is two above the one in `fields`.
        at = self._lower.find(b"\r\n%b:" % name)
        return None if at < 0 else self._value(at + len(name) + 1)

    def get_all(self, name: bytes) -> list[bytes]:
        """Every value of the field called `name` (lower case), trimmed, in order."""
        field, values, at = b"\r\n%b:" % name, [], -1
        while (at := self._lower.find(field, at + 1)) >= 0:
            values.append(self._value(at + len(name) + 1))
        return values

    def _value(self, start: int) -> bytes:
        return self.fields[start : self.fields.find(b"\r\n", start)].strip(b" \t")


class Request:
    """One request: its head taken apart as far as routing needs, its body whole.

    In `Handler.admit` the body is not there yet and `body` is empty. The connection keeps the request until its
    answer ends, so whoever has no more use for a large body sets `body` to `b""`.
    """

    __slots__ = ("body", "head", "length", "peer")

    def __init__(self, head: Head, body: Body = b"", length: int | None = 0, peer: str = "") -> None:
        self.head = head
        self.body = body
        self.length = length
        """The announced Content-Length; None when chunked. 0 without a body."""
        self.peer = peer
        """The client's address; `::ffff:` forms are their IPv4 address, without a scope id."""

    @property
    def method(self) -> str:
        return self.head.method

    @property
    def path(self) -> str:
        """See `Head.path`."""
        return self.head.path

    @property
    def query(self) -> str:
        """See `Head.query`."""
        return self.head.query

    def get(self, name: bytes) -> bytes | None:
        """See `Head.get`."""
        return self.head.get(name)

    def get_all(self, name: bytes) -> list[bytes]:
        """See `Head.get_all`."""
        return self.head.get_all(name)
