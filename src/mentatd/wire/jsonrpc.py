"""JSON-RPC 2.0 messages as MCP sends them, with ids, parameters and results kept byte for byte.

An id may be any JSON value and comes back as it came; what a call carries (arguments, `_meta`, progress tokens)
is never taken apart further than a decision needs. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from mentatd.wire.rawjson import is_utf8

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

BATCH_MESSAGES = 100
"""Messages of one batch: each may be a call to every group."""
BATCH_BYTES = 1024 * 1024
"""Bytes of one batch: `[1,1,1,…]` costs thirty times its size to take apart."""

_NULL = b"null"
_NOTHING = (b"", _NULL)
_RAW = msgspec.json.Decoder(msgspec.Raw)
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_UNREADABLE = (msgspec.DecodeError, RecursionError)


class _Envelope(msgspec.Struct):
    """The members of a message, unread. One that is absent is empty, which no JSON text is."""

    jsonrpc: msgspec.Raw = msgspec.Raw()
    id: msgspec.Raw = msgspec.Raw()
    method: msgspec.Raw = msgspec.Raw()
    params: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


class _Error(msgspec.Struct):
    code: int
    message: str


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_ERROR = msgspec.json.Decoder(_Error)


@dataclass(frozen=True, slots=True)
class Call:
    """A request that wants an answer."""

    id: bytes
    """JSON text."""
    method: str
    """Any text."""
    params: bytes
    """JSON text of an object; `{}` when absent."""


@dataclass(frozen=True, slots=True)
class Notification:
    """A request that wants none."""

    method: str
    """Any text."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The error that answers a request."""

    code: int
    """Such as `METHOD_NOT_FOUND`."""
    message: str
    """In the sender's words."""
    json: bytes
    """The whole error object as it came, `data` included."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to a request: JSON text of the result, or the error in place of it."""

    id: bytes
    """JSON text; `null` when the sender could not tell which request it answers."""
    answer: bytes | Failure
    """The result is whatever the method gives: not judged here."""


@dataclass(frozen=True, slots=True)
class Invalid:
    """Not a message; to be answered with an error."""

    id: bytes
    """JSON text; `null` when it could not be told."""
    code: int
    """One of the codes above."""
    message: str
    """What is wrong with it."""


Message = Call | Notification | Outcome | Invalid


@dataclass(frozen=True, slots=True)
class Body:
    """What one HTTP body holds."""

    messages: tuple[Message, ...]
    """In order; never empty."""
    batch: bool
    """The messages came as an array, and so do the answers."""


def read_body(body: bytes | memoryview) -> Body:
    """Read a body of one message or a batch. Whatever is wrong is an `Invalid` in its place; never raises."""
    try:
        whole = _RAW.decode(body)
    except _UNREADABLE as error:
        return _refused(PARSE_ERROR, f"not JSON: {error}")
    if not is_utf8(body):
        return _refused(PARSE_ERROR, "not JSON: not UTF-8")
    if bytes(memoryview(whole)[:1]) != b"[":
        return Body((read_message(whole),), batch=False)
    if len(body) > BATCH_BYTES:
        return _refused(INVALID_REQUEST, f"a batch of over {BATCH_BYTES} bytes")
    items = _RAWS.decode(whole)
    if not items or len(items) > BATCH_MESSAGES:
        return _refused(
            INVALID_REQUEST, f"a batch of {len(items)} messages: from 1 to {BATCH_MESSAGES} are taken"
        )
    return Body(tuple(read_message(item) for item in items), batch=True)


def _refused(code: int, message: str) -> Body:
    return Body((Invalid(_NULL, code, message),), batch=False)


def read_message(text: bytes | msgspec.Raw) -> Message:
    """Read one message from its JSON text, which is UTF-8; never raises."""
    try:
        envelope = _ENVELOPE.decode(text)
    except _UNREADABLE:
        return Invalid(_NULL, INVALID_REQUEST, "a message must be an object")
    id_ = bytes(envelope.id) or _NULL
    if _text(envelope.jsonrpc) != "2.0":
        return Invalid(id_, INVALID_REQUEST, '`jsonrpc` must be "2.0"')
    if not bytes(envelope.method):
        return _read_outcome(id_, bytes(envelope.result), bytes(envelope.error))
    method = _text(envelope.method)
    if method is None:
        return Invalid(id_, INVALID_REQUEST, "`method` must be a string")
    if not bytes(envelope.id):
        return Notification(method)
    params = bytes(envelope.params)
    if params in _NOTHING:
        params = b"{}"
    if params[:1] != b"{":
        return Invalid(id_, INVALID_PARAMS, "`params` must be an object")
    return Call(id_, method, params)


def _read_outcome(id_: bytes, result: bytes, error: bytes) -> Outcome | Invalid:
    """Servers with the habits of JSON-RPC 1.0 send both members, one of them null."""
    if error in _NOTHING:
        if not result:
            return Invalid(id_, INVALID_REQUEST, "a message has a `method`, a `result` or an `error`")
        return Outcome(id_, result)
    if result not in _NOTHING:
        return Invalid(id_, INVALID_REQUEST, "a message has a `result` or an `error`, not both")
    try:
        said = _ERROR.decode(error)
    except _UNREADABLE:
        return Invalid(id_, INVALID_REQUEST, "`error` must have a `code` and a `message`")
    return Outcome(id_, Failure(said.code, said.message, error))


def _text(member: msgspec.Raw) -> str | None:
    try:
        return _TEXT.decode(member)
    except _UNREADABLE:
        return None


def write_result(id_: bytes, result: bytes) -> bytes:
    """The answer to call `id_`; both are JSON text."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id_, result)


def write_error(id_: bytes, error: bytes) -> bytes:
    """The error answer to call `id_`; both are JSON text, the error as it came from elsewhere."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id_, error)


def error_object(code: int, message: str) -> bytes:
    """The JSON text of an error object."""
    return msgspec.json.encode({"code": code, "message": message})


def write_call(id_: int, method: str, params: bytes) -> bytes:
    """A request; `params` is the JSON text of an object."""
    return b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}' % (id_, msgspec.json.encode(method), params)


def write_notification(method: str, params: bytes = b"{}") -> bytes:
    """A request that wants no answer; `params` is the JSON text of an object."""
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (msgspec.json.encode(method), params)
