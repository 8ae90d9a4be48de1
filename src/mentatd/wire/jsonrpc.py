"""JSON-RPC 2.0 messages as MCP sends them, with ids and parameters kept byte for byte.

An id may be any JSON value and comes back as it came; what a call carries (arguments, `_meta`, progress tokens)
is never taken apart further than a decision needs.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

_NULL = b"null"
_RAW = msgspec.json.Decoder(msgspec.Raw)
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)


class _Envelope(msgspec.Struct):
    """The members of a message, unread. A member that is absent stays None, which no JSON text is."""

    jsonrpc: msgspec.Raw | None = None
    id: msgspec.Raw | None = None
    method: msgspec.Raw | None = None
    params: msgspec.Raw | None = None
    result: msgspec.Raw | None = None
    error: msgspec.Raw | None = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)


@dataclass(frozen=True, slots=True)
class Call:
    """A request that wants an answer."""

    id: bytes
    """JSON text."""
    method: str
    params: bytes
    """JSON text of an object; `{}` when absent."""


@dataclass(frozen=True, slots=True)
class Notification:
    """A request that wants none."""

    method: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to a request: exactly one of `result` and `error` is there."""

    id: bytes
    result: bytes | None
    error: bytes | None


@dataclass(frozen=True, slots=True)
class Invalid:
    """Not a message; answered with an error."""

    id: bytes
    code: int
    message: str


Message = Call | Notification | Outcome | Invalid


@dataclass(frozen=True, slots=True)
class Body:
    """What one HTTP body holds."""

    messages: tuple[Message, ...]
    batch: bool
    """The messages came as an array, and so do the answers."""


def read_body(body: bytes | memoryview) -> Body:
    """Read a body of one message or a batch. Whatever is wrong is an `Invalid` in its place; never raises."""
    try:
        whole = bytes(_RAW.decode(body)).strip()
        if whole[:1] != b"[":
            return Body((read_message(whole),), batch=False)
        items = _RAWS.decode(whole)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Body((Invalid(_NULL, PARSE_ERROR, f"not JSON: {error}"),), batch=False)
    if not items:
        return Body((Invalid(_NULL, INVALID_REQUEST, "an empty batch"),), batch=False)
    return Body(tuple(read_message(bytes(item)) for item in items), batch=True)


def read_message(text: bytes) -> Message:
    """Read one message from its JSON text; never raises."""
    try:
        envelope = _ENVELOPE.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Invalid(_NULL, INVALID_REQUEST, "a message must be an object")
    id_ = _NULL if envelope.id is None else bytes(envelope.id)
    if envelope.jsonrpc is None or bytes(envelope.jsonrpc) != b'"2.0"':
        return Invalid(id_, INVALID_REQUEST, '`jsonrpc` must be "2.0"')
    if envelope.method is None:
        return _outcome(envelope, id_)
    try:
        method = _TEXT.decode(envelope.method)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Invalid(id_, INVALID_REQUEST, "`method` must be a string")
    if envelope.id is None:
        return Notification(method)
    params = b"{}" if envelope.params is None else bytes(envelope.params)
    if params[:1] != b"{":
        return Invalid(id_, INVALID_PARAMS, "`params` must be an object")
    return Call(id_, method, params)


def _outcome(envelope: _Envelope, id_: bytes) -> Outcome | Invalid:
    if (envelope.result is None) == (envelope.error is None):
        return Invalid(id_, INVALID_REQUEST, "a message has a `method`, a `result` or an `error`")
    result = None if envelope.result is None else bytes(envelope.result)
    return Outcome(id_, result, None if envelope.error is None else bytes(envelope.error))


def write_result(id_: bytes, result: bytes) -> bytes:
    """The answer to call `id_`; both are JSON text."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id_, result)


def write_error(id_: bytes, error: bytes) -> bytes:
    """The error answer to call `id_`; both are JSON text, the error as it came from elsewhere."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id_, error)


def error_object(code: int, message: str) -> bytes:
    """The JSON text of an error object."""
    return msgspec.json.encode({"code": code, "message": message})


def write_call(id_: int | None, method: str, params: bytes | None = None) -> bytes:
    """A request; without `id_` a notification. `params` is the JSON text of an object."""
    head = b'{"jsonrpc":"2.0",' + (b"" if id_ is None else b'"id":%d,' % id_)
    tail = b"" if params is None else b',"params":' + params
    return head + b'"method":' + msgspec.json.encode(method) + tail + b"}"
