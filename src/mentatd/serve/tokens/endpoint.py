"""`POST /v1/responses/input_tokens` and `POST /v1/messages/count_tokens`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from mentatd.cluster.routes import Route, RouteTable, lookup
from mentatd.errors import Refusal
from mentatd.http.client import Client
from mentatd.http.request import Request
from mentatd.serve import refusals
from mentatd.serve.answering import Answering, Reply
from mentatd.serve.inflight import Inflight
from mentatd.serve.tokens.engine import Counted, CountRefused, Engine, TokenCounter
from mentatd.serve.tokens.llamacpp import LlamaCppCounter
from mentatd.serve.tokens.sglang import SglangCounter
from mentatd.serve.tokens.vllm import VllmCounter
from mentatd.wire.anthropic import read_messages
from mentatd.wire.openai import BadBody, find_model
from mentatd.wire.prompt import BadPrompt, Prompt
from mentatd.wire.responses import read_responses

if TYPE_CHECKING:
    from mentatd.http.connection import Connection

BODY_LIMIT = 32 * 1024 * 1024
COUNTERS: dict[str, TokenCounter] = {
    "vllm": VllmCounter(),
    "llamacpp": LlamaCppCounter(),
    "sglang": SglangCounter(),
}
"""By MENTAT_MODEL_PROVIDER."""

_ANTHROPIC_PATH = b"/v1/messages/count_tokens"
_NOT_THERE = (404, 405)
_PASSED_FIELDS = (b"authorization", b"x-api-key", b"anthropic-version", b"anthropic-beta")
"""What an engine may need to take the question for its client's own."""

_Answerer = Callable[[Engine, Route, bytes], Awaitable[Reply | Refusal]]


class TokensEndpoint:
    """Takes requests for the two paths. `table` gives the newest route table."""

    def __init__(
        self,
        table: Callable[[], RouteTable],
        client: Client,
        inflight: Inflight,
        answering: Answering,
        *,
        timeout_s: float,
    ) -> None:
        self._table = table
        self._client = client
        self._inflight = inflight
        self._answering = answering
        self._timeout_s = timeout_s

    def handle_responses(self, request: Request, connection: Connection) -> None:
        """Answer OpenAI's route."""
        self._answering.later(connection, self._count(request, self._responses), "input_tokens")

    def handle_anthropic(self, request: Request, connection: Connection) -> None:
        """Answer Anthropic's route: the engine's own answer, or ours where it has none."""
        self._answering.later(connection, self._count(request, self._anthropic), "count_tokens")

    async def _count(self, request: Request, answer: _Answerer) -> Reply | Refusal:
        body = bytes(request.body)
        routing = find_model(body)
        if isinstance(routing, BadBody):
            return refusals.bad_body(routing)
        now = asyncio.get_running_loop().time()
        route = lookup(self._table(), routing.model, now=now, load=self._inflight.count)
        if not isinstance(route, Route):
            return refusals.not_routed(routing.model, route)
        fields = {
            name.decode(): value.decode("latin-1")
            for name in _PASSED_FIELDS
            if (value := request.get(name)) is not None
        }
        engine = Engine(self._client, route, routing.model, seconds=self._timeout_s, fields=fields)
        try:
            return await answer(engine, route, body)
        except BadPrompt as error:
            return refusals.invalid_prompt(str(error))
        except CountRefused as refused:
            return refused.refusal

    async def _responses(self, engine: Engine, route: Route, body: bytes) -> Reply | Refusal:
        counted = await _ask(engine, route, read_responses(body), body)
        if isinstance(counted, Refusal):
            return counted
        document: dict[str, object] = {"object": "response.input_tokens", "input_tokens": counted.tokens}
        if counted.uncounted:
            document["uncounted"] = counted.uncounted
        return Reply(200, msgspec.json.encode(document))

    async def _anthropic(self, engine: Engine, route: Route, body: bytes) -> Reply | Refusal:
        own = await engine.post(_ANTHROPIC_PATH, body)
        if own.status not in _NOT_THERE:
            return Reply(own.status, own.body, own.get(b"content-type") or b"application/json")
        counted = await _ask(engine, route, read_messages(body), None)
        if isinstance(counted, Refusal):
            return counted
        document: dict[str, object] = {"input_tokens": counted.tokens}
        if counted.uncounted:
            document["uncounted"] = counted.uncounted
        return Reply(200, msgspec.json.encode(document))


async def _ask(engine: Engine, route: Route, prompt: Prompt, request: bytes | None) -> Counted | Refusal:
    counter = COUNTERS.get(route.provider)
    if counter is None:
        return refusals.unknown_provider(route.group, route.provider, COUNTERS)
    if not prompt.messages and (prompt.media_tokens or prompt.uncounted):
        # Nothing that a template could render: engines refuse an empty conversation.
        return Counted(prompt.media_tokens, prompt.uncounted)
    return await counter.count(engine, prompt, request)
