"""Forms that carry a `model`: multipart/form-data (RFC 7578) and application/x-www-form-urlencoded.

Pure, and without a copy of the body: it may be a view of 128 MiB. Where a form has two fields of one name the
last one counts, as it does for `form["model"]` in Starlette, which Python engines are built on.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from mentatd.wire.openai import FALLBACK_LIMIT, BadBody, Routing, find_model

_JSON = b"application/json"
_MULTIPART = b"multipart/form-data"
_URLENCODED = b"application/x-www-form-urlencoded"

_PARTS_LIMIT = 2000
"""Parts of one form: what Starlette takes, 1000 fields and 1000 files."""

_HEAD_LIMIT = 16 * 1024
"""Bytes of one part's head."""

_VALUE_LIMIT = 64 * 1024
"""Bytes of a field that is read."""

_STEP = 256 * 1024
"""Bytes of a form that are searched at one time: at most a few milliseconds."""

_FIRST_STEP = 1024
"""Bytes of a part that are searched first, and then twice as many each time: most parts are small, and what is
searched is copied."""

_PARAMETER = re.compile(rb';[ \t]*([^\s"=;]+)[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|[^;\s"]*)', re.DOTALL)
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_HEAD_END = re.compile(rb"\r\n\r\n")
_DISPOSITION = re.compile(rb"\r\ncontent-disposition[ \t]*:([^\r\n]*)", re.IGNORECASE)
# bounded, so that a body of nothing but white space is not walked through
_JSON_START = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]{0,1024}[{\[]")

# in a URL-encoded form any letter of a name may be written as an escape
_MODEL = re.compile(rb"(?:\A|&)(?:m|%6[dD])(?:o|%6[fF])(?:d|%64)(?:e|%65)(?:l|%6[cC])=([^&]*)")


def find_route(body: bytes | memoryview, content_type: bytes) -> Routing | BadBody:
    """The routing of any body: JSON whatever its Content-Type says, or else the form that it says.

    JSON that was sent as multipart/form-data stays so: only what a plain `curl -d` says is corrected (design.md
    "Rules of forwarding"). No engine can find another model in it, for a form's parts begin with a line `--…`,
    which JSON cannot have: line breaks stand between its values only, and none begins with two minus signs.
    """
    if not is_form(content_type):
        return find_model(body)
    if not _JSON_START.match(body):
        return find_form_model(body, content_type)
    routing = find_model(body)
    if _media_type(content_type) != _MULTIPART:
        return routing
    if isinstance(routing, Routing):
        return Routing(routing.model, routing.stream, form=True)
    # what is in front of the first part may be any text (RFC 2046 section 5.1.1)
    form = find_form_model(body, content_type)
    return routing if isinstance(form, BadBody) else form


def is_form(content_type: bytes) -> bool:
    """Whether a Content-Type is that of a form."""
    # the usual one needs no closer look
    return content_type != _JSON and _media_type(content_type) in (_MULTIPART, _URLENCODED)


def find_form_model(body: bytes | memoryview, content_type: bytes) -> Routing | BadBody:
    """The text field `model` of a form, wherever it stands. A part with a file name is not a text field."""
    if _media_type(content_type) == _URLENCODED:
        fields = _urlencoded_fields(body)
    else:
        fields = _multipart_fields(body, _parameters(content_type).get(b"boundary", b""))
    if isinstance(fields, BadBody):
        return fields
    if b"model" not in fields:
        return BadBody("missing_model", "the form has no text field `model`, by which every POST is routed")
    try:
        model = fields[b"model"].decode()
    except UnicodeDecodeError as error:
        return BadBody("invalid_model", f"the form's field `model` is not UTF-8: {error}")
    if not model:
        return BadBody("invalid_model", "the form's field `model` must not be empty")
    return Routing(model, fields.get(b"stream", b"").lower() == b"true", form=True)


def _media_type(content_type: bytes) -> bytes:
    return content_type.partition(b";")[0].strip().lower()


def _parameters(value: bytes) -> dict[bytes, bytes]:
    """The `name=value` parameters behind the first `;`, names in lower case, quoted strings unquoted."""
    found = {}
    for name, text in _PARAMETER.findall(value):
        found[name.lower()] = _ESCAPE.sub(rb"\1", text[1:-1]) if text.startswith(b'"') else text
    return found


def _urlencoded_fields(body: bytes | memoryview) -> dict[bytes, bytes] | BadBody:
    if len(body) > FALLBACK_LIMIT:
        return BadBody("invalid_body", "a URL-encoded form may not be over 8 MiB")
    fields = {}
    for found in _MODEL.finditer(body):
        fields[b"model"] = found[1]
    return {name: unquote_to_bytes(value.replace(b"+", b" ")) for name, value in fields.items()}


def _multipart_fields(body: bytes | memoryview, boundary: bytes) -> dict[bytes, bytes] | BadBody:
    """The text fields that routing needs. A form that is cut short has the parts that came whole."""
    if not boundary:
        return BadBody("invalid_body", "the Content-Type multipart/form-data names no `boundary`")
    delimiter = _Delimiter(boundary)
    found = delimiter.first(body)
    fields: dict[bytes, bytes] = {}
    for _ in range(_PARTS_LIMIT):
        if found is None or found.last:
            return fields
        # led by the delimiter's line break, so that a part without a single field has a head as well
        begin = found.end - 2
        head_end = _HEAD_END.search(body, begin, found.end + _HEAD_LIMIT)
        if head_end is None:
            return BadBody("invalid_body", "a part of the form has no whole head within 16 KiB")
        start = head_end.end()
        found = delimiter.next(body, start)
        name = _text_field(bytes(body[begin : head_end.start()]))
        if name in (b"model", b"stream") and found is not None:
            if found.start - start > _VALUE_LIMIT:
                return BadBody("invalid_model", "a text field of the form is over 64 KiB")
            fields[name] = bytes(body[start : found.start])
    return BadBody("invalid_body", f"the form has more than {_PARTS_LIMIT} parts")


class _Found(NamedTuple):
    """Where a delimiter stands, its line break in front and the one behind included."""

    start: int
    end: int
    last: bool
    """It closes the form."""


class _Delimiter:
    """What parts a form (RFC 2046 section 5.1.1): the line break before it belongs to it, white space may follow."""

    def __init__(self, boundary: bytes) -> None:
        line = re.escape(b"--" + boundary) + rb"(?:(--)|[ \t]{0,64}\r\n)"
        self._line = re.compile(line)
        self._search = re.compile(rb"\r\n" + line).search
        self._begins = b"\r\n--" + boundary
        self._longest = len(self._begins) + 64 + 2

    def first(self, body: bytes | memoryview) -> _Found | None:
        """The form may begin with it, without a line break, or with a preamble."""
        found = self._line.match(body)
        return self.next(body, 0) if found is None else _Found(0, found.end(), bool(found[1]))

    def next(self, body: bytes | memoryview, start: int) -> _Found | None:
        """The next one from `start` on. In steps, between which other threads run."""
        at, step = start, min(_FIRST_STEP, _STEP)
        while at < len(body):
            piece = bytes(body[at : at + step + self._longest])
            # the plain search is ten times faster than the pattern's
            begins = piece.find(self._begins)
            found = self._search(piece, begins) if begins >= 0 else None
            if found is not None:
                return _Found(at + found.start(), at + found.end(), bool(found[1]))
            at, step = at + step, min(2 * step, _STEP)
        return None


def _text_field(head: bytes) -> bytes | None:
    """The name of the text field that a part's head describes, where it is of use; None for a file."""
    # spares most heads the patterns; a name with an escape may be any
    if b"model" not in head and b"stream" not in head and b"\\" not in head:
        return None
    dispositions = _DISPOSITION.findall(head)
    parameters = _parameters(dispositions[-1]) if dispositions else {}
    if b"filename" in parameters or b"filename*" in parameters:
        return None
    return parameters.get(b"name")
