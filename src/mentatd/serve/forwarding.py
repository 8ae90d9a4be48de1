"""The rules of forwarding (design.md, RFC 9110 section 7.6.1): what of a head goes on, what is written anew.

Pure. Heads go on raw; one regular expression finds what must not. Both sides' parsers have refused folded
lines, bare CR or LF, and white space before a colon.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from mentatd.cluster.targets import Target
from mentatd.http.request import Head
from mentatd.http.response import ResponseHead
from mentatd.wire.codings import parse_codings
from mentatd.wire.forms import is_form

# The look-ahead spares most lines the alternatives. What is stripped here is written anew or ends here.
_REQUEST_STOPS: Final = re.compile(
    rb"\r\n(?=[hckptue])(?:host|content-length|connection|keep-alive|proxy-[^:\r\n]*|te|trailer"
    rb"|transfer-encoding|upgrade|expect):[^\r\n]*",
    re.IGNORECASE,
)
_RESPONSE_STOPS: Final = re.compile(
    rb"\r\n(?=[ckptu])(?:connection|keep-alive|proxy-[^:\r\n]*|te|trailer|upgrade):[^\r\n]*",
    re.IGNORECASE,
)
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})
_KEPT_HEADS: Final = 128
_CODING: Final = re.compile(rb"\r\ntransfer-encoding:[^\r\n]*", re.IGNORECASE)
_CONNECTION: Final = re.compile(rb"\r\nconnection:([^\r\n]*)", re.IGNORECASE)


def connection_names(values: Iterable[bytes]) -> frozenset[bytes]:
    """The fields that Connection fields name, in lower case: they end here as well."""
    names = (name.strip(b" \t").lower() for value in values for name in value.split(b","))
    return frozenset(filter(None, names))


def request_fields(head: bytes, drop: Collection[bytes] = (), content_type: bytes | None = None) -> bytes:
    """The fields of a request that go on, each behind its line break, without those in `drop` (lower case).

    `head` is the client's field lines, each ending in CRLF; `content_type` is written in place of theirs.
    """
    fields = _REQUEST_STOPS.sub(b"", b"\r\n" + head[:-2]) if head else b""
    if drop:
        fields = _without(fields, drop)
    if content_type is not None:
        fields = _without(fields, (b"content-type",)) + b"\r\nContent-Type: " + content_type
    return fields


@dataclass(frozen=True, slots=True, eq=False)
class Passage:
    """What a request's head makes of its forwarding."""

    codings: tuple[str, ...]
    """Of the body, in the order they were applied; it goes on without them."""
    content_type: bytes
    """As sent; empty when it was not."""
    form: bool
    """It is that of a form."""
    json_fields: bytes
    """The fields that go on with a body of JSON, each behind its line break."""
    form_fields: bytes
    """The fields that go on with a form."""


def passage(head: Head) -> Passage:
    """The passage of the requests with this head."""
    codings: tuple[str, ...] = ()
    drop: frozenset[bytes] = frozenset()
    if head.odd:
        codings = parse_codings(head.get_all(b"content-encoding"))
        drop = connection_names(head.get_all(b"connection"))
        if codings:
            drop |= {b"content-encoding"}
    content_type = head.get(b"content-type") or b""
    as_sent = corrected = request_fields(head.fields, drop)
    # JSON sent without a type, or as a form (a plain `curl -d` does), is refused by engines as it stands
    form = is_form(content_type)
    if form or not content_type:
        corrected = request_fields(head.fields, drop, b"application/json")
    return Passage(codings, content_type, form, corrected, as_sent)


@lru_cache(_KEPT_HEADS)
def uncompressed(fields: bytes) -> bytes:
    """The fields of a request for a stream, which goes on asking for it as it stands: the router may have to put an
    event of its own in, or to tell the error that comes in its place (`opening.py`)."""
    kept = _without(fields, (b"accept-encoding",))
    return fields if kept == fields else kept + b"\r\nAccept-Encoding: identity"


def post_head(to: Target, target: bytes, length: int, fields: bytes) -> bytes:
    """The head of the POST to one address: of the client's request `target`, with a body of `length` bytes.

    `fields` go on, each behind its line break.
    """
    return b"POST %b HTTP/1.1\r\nHost: %b\r\nContent-Length: %d%b\r\n\r\n" % (
        to.join(target),
        to.authority,
        length,
        fields,
    )


def passes(head: ResponseHead) -> bool:
    """Whether an engine's head goes on as it came, its Transfer-Encoding too: nothing in it stops here."""
    note = head.note
    if note is None:
        note = head.note = head.whole.startswith(b"HTTP/1.1") and _RESPONSE_STOPS.search(head.whole) is None
    return note


@lru_cache(_KEPT_HEADS)
def response_head(raw: bytes, coding: bool, add: bytes = b"") -> bytes:
    """The whole head of an answer, its blank line included, from the engine's status and field lines.

    `coding`: the engine's Transfer-Encoding goes on. `add`: further lines, each ending in CRLF.
    """
    if _RESPONSE_STOPS.search(raw):
        # where its body ends is no field that an engine may name as its own affair
        named = connection_names(_CONNECTION.findall(raw)) - _FRAMING
        raw = _without(_RESPONSE_STOPS.sub(b"", raw), named)
    if not coding:
        raw = _CODING.sub(b"", raw)
    if not raw.startswith(b"HTTP/1.1"):
        raw = b"HTTP/1.1" + raw[8:]
    return raw + add + b"\r\n"


def _without(lines: bytes, names: Collection[bytes]) -> bytes:
    kept = [line for line in lines.split(b"\r\n") if line.partition(b":")[0].lower() not in names]
    return b"\r\n".join(kept)
