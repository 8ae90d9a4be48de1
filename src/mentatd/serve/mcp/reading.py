"""What an MCP server answers to one call, as JSON or as a stream of events (MCP 2025-11-25, "Transports")."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mentatd.errors import AnswerTooLarge, MentatError
from mentatd.http.client import Streaming
from mentatd.wire import jsonrpc
from mentatd.wire.jsonrpc import Call, Failure, Outcome
from mentatd.wire.sse import EventTooLarge, SseDecoder

ANSWER_LIMIT = 16 * 1024 * 1024
"""Bytes of one answer: images come in base64."""
_SHOWN = 200
"""A text from a server is quoted up to this many characters."""

Reply = Callable[[bytes], Awaitable[None]]
"""Sends the server a message of ours."""


class GroupFailed(MentatError):
    """The server was reached and gave no usable answer; the text says what came instead."""


async def read_answer(answer: Streaming, id_: int, url: str, reply: Reply) -> Outcome | bytes:
    """The outcome of call `id_`; without one, the beginning of what came in its place.

    What the server asks in the middle of its stream is declined through `reply`. Raises GroupFailed for a stream
    that ends too early, AnswerTooLarge, and as `Streaming.pieces`.
    """
    kind = (answer.get(b"content-type") or b"").split(b";")[0].strip().lower()
    if kind == b"text/event-stream":
        return await _read_events(answer, id_, url, reply)
    body = bytearray()
    async for piece in answer.pieces():
        body += piece
        if len(body) > ANSWER_LIMIT:
            raise AnswerTooLarge(url, f"an answer of over {ANSWER_LIMIT} bytes")
    for message in jsonrpc.read_body(bytes(body)).messages:
        if isinstance(message, Outcome) and _answers(message, id_):
            return message
    return bytes(body[:_SHOWN])


async def _read_events(answer: Streaming, id_: int, url: str, reply: Reply) -> Outcome:
    decoder = SseDecoder(ANSWER_LIMIT)
    try:
        async for piece in answer.pieces():
            for data in decoder.feed(piece):
                for message in jsonrpc.read_body(data).messages:
                    if isinstance(message, Outcome) and _answers(message, id_):
                        return message
                    if isinstance(message, Call):
                        await reply(_declined(message))
    except EventTooLarge as error:
        raise AnswerTooLarge(url, str(error)) from None
    raise GroupFailed(f"{url}: the event stream ended without an answer")


def _answers(outcome: Outcome, id_: int) -> bool:
    """An error without an id is this call's: it is the only one of its exchange."""
    return outcome.id == b"%d" % id_ or (outcome.id == b"null" and isinstance(outcome.answer, Failure))


def _declined(call: Call) -> bytes:
    """The answer to what a server asks: no user sits here who could be asked."""
    if call.method == "ping":
        return jsonrpc.write_result(call.id, b"{}")
    message = f"not offered by this client: {call.method[:_SHOWN]!r}"
    return jsonrpc.write_error(call.id, jsonrpc.error_object(jsonrpc.METHOD_NOT_FOUND, message))


def quoted(said: Outcome | bytes) -> str:
    """What a server said, for an error text."""
    if isinstance(said, Outcome):
        return quoted(said.answer.json if isinstance(said.answer, Failure) else said.answer)
    return repr(said[:_SHOWN].decode(errors="replace"))
