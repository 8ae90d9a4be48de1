"""What the server refuses in its own name, before a handler is asked."""

from __future__ import annotations

from mentatd.errors import Refusal


def _bad(status: int, code: str, message: str, kind: str = "invalid_request_error") -> Refusal:
    return Refusal(status, kind, code, message, close=True)


def malformed(what: str) -> Refusal:
    """400: the bytes are no request of HTTP/1.0 or HTTP/1.1, or could be read as another one elsewhere."""
    return _bad(400, "malformed_request", f"the request is not well-formed HTTP/1.1: {what}")


START_LINE = malformed("its first line is not `METHOD target HTTP/1.1`")
BARE_LF = malformed("a line ends in LF without CR")
AUTHORITY_FORM = malformed("the target is neither a path nor the URL of this host")
HOST = malformed("it needs exactly one valid Host field")
LENGTH = malformed("Content-Length is not one decimal number")
CODING = malformed("Transfer-Encoding is not exactly `chunked`, or stands beside Content-Length or HTTP/1.0")
CHUNKING = malformed("its chunked body is broken")
INCOMPLETE = malformed("it ended before it was whole")

UNKNOWN_METHOD = _bad(501, "method_not_implemented", "the request's method is not one of HTTP's")
HEAD_TOO_LARGE = _bad(431, "headers_too_large", "the request's head is over 64 KiB or 256 fields")
TOO_SLOW = _bad(408, "request_timeout", "the request did not come whole in time")
IN_THE_WAY = _bad(
    408, "request_timeout", "the request's body came slower than 64 KiB/s while others waited for its memory"
)
FORBIDDEN = _bad(403, "source_not_allowed", "requests from this address are not allowed", "permission_error")
TOO_MANY = _bad(
    503, "too_many_connections", "the router carries as many connections as it may", "overloaded_error"
)
CRASHED = Refusal(
    500, "server_error", "internal_error", "the router failed on this request; its log says why"
)


def too_large(limit: int) -> Refusal:
    """413: a body over `limit` bytes, by its announced length or by count."""
    return _bad(413, "body_too_large", f"the request's body is over {limit} bytes")
