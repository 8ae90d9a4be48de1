"""`POST /v1/responses/input_tokens` and `POST /v1/messages/count_tokens`."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from mentatd.cluster.routes import Route, lookup
from mentatd.errors import Refusal
from mentatd.http.client import Client
from mentatd.http.request import Request
from mentatd.log import log
from mentatd.serve import refusals
from mentatd.serve.answering import Answering, Reply
from mentatd.serve.decoding import plain_body
from mentatd.serve.enginekey import EngineKey
from mentatd.serve.inflight import Inflight
from mentatd.serve.proxy import Routes
from mentatd.serve.tokens.engine import NOT_THERE, Counted, CountRefused, Engine, TokenCounter
from mentatd.serve.tokens.llamacpp import LlamaCppCounter
from mentatd.serve.tokens.passing import answer_fields, question_fields, question_target
from mentatd.serve.tokens.sglang import SglangCounter
from mentatd.serve.tokens.vllm import VllmCounter
from mentatd.wire.anthropic import read_messages
from mentatd.wire.openai import BadBody, find_model
from mentatd.wire.prompt import BadPrompt, Prompt
from mentatd.wire.responses import read_responses

if TYPE_CHECKING:
    from mentatd.http.connection import Connection

RESPONSES_PATH = "/v1/responses/input_tokens"
ANTHROPIC_PATH = "/v1/messages/count_tokens"
BODY_LIMIT = 32 * 1024 * 1024
"""Bytes of a request's body, as sent and decoded."""
_INLINE_BYTES = 64 * 1024
"""A body up to this is read within milliseconds, whatever it holds."""
COUNTERS: dict[str, TokenCounter] = {
    "vllm": VllmCounter(),
    "llamacpp": LlamaCppCounter(),
    "llama.cpp": LlamaCppCounter(),
    "sglang": SglangCounter(),
}
"""By MENTAT_MODEL_PROVIDER."""

_Answerer = Callable[[Request, Engine, Route, bytes], Awaitable[Reply]]


class TokensEndpoint:
    """Takes requests for the two paths."""

    def __init__(
        self,
        cluster: Routes,
        client: Client,
        inflight: Inflight,
        answering: Answering,
        key: EngineKey,
        *,
        timeout_s: float,
    ) -> None:
        """`timeout_s` seconds are enough for all that one request asks of its engine (MCP_TIMEOUT_S)."""
        self._cluster = cluster
        self._client = client
        self._inflight = inflight
        self._answering = answering
        self._key = key
        self._timeout_s = timeout_s

    def handle_responses(self, request: Request, connection: Connection) -> None:
        """Answer OpenAI's route."""
        self._answering.later(connection, self._count(request, connection, _responses), "input_tokens")

    def handle_anthropic(self, request: Request, connection: Connection) -> None:
        """Answer Anthropic's route: the engine's own answer, or ours where it has none."""
        self._answering.later(connection, self._count(request, connection, _anthropic), "count_tokens")

    async def _count(self, request: Request, connection: Connection, answer: _Answerer) -> Reply | Refusal:
        plain = await plain_body(request, BODY_LIMIT, connection.reserve)
        if isinstance(plain, Refusal):
            return plain
        body = bytes(plain).removeprefix(codecs.BOM_UTF8)
        request.body = plain = b""
        routing = find_model(body)
        if isinstance(routing, BadBody):
            return refusals.bad_body(routing)
        now = asyncio.get_running_loop().time()
        route = lookup(self._cluster.table, routing.model, now=now, load=self._inflight.count)
        if not isinstance(route, Route):
            return refusals.not_routed(routing.model, route)
        engine = Engine(
            self._client,
            route,
            routing.model,
            seconds=self._timeout_s,
            fields=question_fields(request),
            key=self._key,
            suspect=self._cluster.suspect,
        )
        try:
            return await answer(request, engine, route, body)
        except BadPrompt as error:
            return refusals.invalid_prompt(str(error))
        except CountRefused as refused:
            refusal = refused.refusal
            if refusal.status >= 500:
                log("count_failed", model=routing.model, group=route.group, error=refusal.message)
            return refusal


async def _responses(request: Request, engine: Engine, route: Route, body: bytes) -> Reply:
    counted = await _ask(engine, route, read_responses, body, openai=True)
    return _reply({"object": "response.input_tokens", "input_tokens": counted.tokens}, counted)


async def _anthropic(request: Request, engine: Engine, route: Route, body: bytes) -> Reply:
    own = await engine.post(question_target(ANTHROPIC_PATH, request), body)
    if own.status not in NOT_THERE:
        content_type = own.get(b"content-type") or b"application/octet-stream"
        return Reply(own.status, own.body, content_type, answer_fields(own.fields))
    counted = await _ask(engine, route, read_messages, body, openai=False)
    return _reply({"input_tokens": counted.tokens}, counted)


async def _ask(
    engine: Engine, route: Route, read: Callable[[bytes], Prompt], body: bytes, *, openai: bool
) -> Counted:
    """Raises BadPrompt and CountRefused."""
    counter = COUNTERS.get(route.provider)
    if counter is None:
        raise CountRefused(refusals.unknown_provider(route.group, route.provider, COUNTERS))
    # a large one takes up to seconds of Python, in a thread not at the cost of everybody else
    prompt = read(body) if len(body) <= _INLINE_BYTES else await asyncio.to_thread(read, body)
    if prompt.messages:
        return await counter.count(engine, prompt, body if openai else None)
    # Nothing that a template could render: engines refuse an empty conversation.
    tools = () if prompt.tools is None else ("tools",)
    return Counted(prompt.media_tokens, (*prompt.uncounted, *tools))


def _reply(document: dict[str, object], counted: Counted) -> Reply:
    if counted.uncounted:
        document["uncounted"] = counted.uncounted
    return Reply(200, msgspec.json.encode(document))
