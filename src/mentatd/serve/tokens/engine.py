"""One engine, as a token counter asks it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from mentatd.cluster.routes import Route
from mentatd.cluster.targets import Target
from mentatd.errors import ConnectFailed, Refusal, UpstreamError, UpstreamTimeout
from mentatd.http.client import Answer, Client
from mentatd.serve import refusals
from mentatd.wire.prompt import Prompt

ANSWER_LIMIT = 64 * 1024 * 1024
"""Bytes of one answer: engines list every token beside the count."""
_REASON = 500
"""Characters of an engine's own reason that are passed on."""


class CountRefused(Exception):
    """There will be no count; the client is answered with `refusal`."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Counted:
    """A count, and what it leaves out."""

    tokens: int
    uncounted: tuple[str, ...]
    """Kinds of things in the request that the count does not include."""


class TokenCounter(Protocol):
    """How one kind of engine is asked."""

    async def count(self, engine: Engine, prompt: Prompt, request: bytes | None) -> Counted:
        """Count `prompt`. `request` is the body as it came when it is OpenAI's own, for engines that take it.

        Raises CountRefused.
        """


class Engine:
    """The engine of one route, asked within one deadline that begins now."""

    def __init__(
        self, client: Client, route: Route, model: str, *, seconds: float, fields: Mapping[str, str]
    ) -> None:
        self.model = model
        self._client = client
        self._route = route
        self._seconds = seconds
        self._until = asyncio.get_running_loop().time() + seconds
        self._fields = {"Content-Type": "application/json", **fields}

    async def post(self, path: bytes, body: bytes) -> Answer:
        """The engine's answer to a POST, whatever its status. Raises CountRefused when there is none."""
        failures: list[str] = []
        for target in self._route.targets:
            try:
                return await self._post(target, path, body)
            except ConnectFailed as error:
                failures.append(str(error))
            except UpstreamTimeout:
                raise CountRefused(
                    refusals.engine_timeout(self._route.group, target.url, self._seconds)
                ) from None
            except UpstreamError as error:
                raise self._failed(target, str(error)) from None
        raise CountRefused(refusals.engine_unreachable(self._route.group, failures))

    async def _post(self, target: Target, path: bytes, body: bytes) -> Answer:
        scheme = "https" if target.tls else "http"
        url = f"{scheme}://{target.authority.decode()}{target.join(path).decode('latin-1')}"
        left = self._until - asyncio.get_running_loop().time()
        return await self._client.ask(
            "POST", url, deadline=max(left, 0.001), limit=ANSWER_LIMIT, fields=self._fields, body=body
        )

    async def post_json(self, path: bytes, body: object, kind: type[Any]) -> Any:
        """The engine's 200 answer decoded as `kind`.

        Raises CountRefused: 400 with the engine's reason for its 4xx, 502 for anything else.
        """
        return self.read(path, await self.post(path, msgspec.json.encode(body)), kind)

    def read(self, path: bytes, answer: Answer, kind: type[Any]) -> Any:
        """Decode a 200 answer to `path` as `kind`; raises as `post_json`."""
        if 400 <= answer.status < 500:
            where = f"group {self._route.group}: {path.decode('latin-1')}: HTTP {answer.status}"
            raise CountRefused(refusals.invalid_prompt(f"{where}: {reason(answer.body)}"))
        if answer.status != 200:
            raise self._failed(self._route.targets[0], f"HTTP {answer.status}: {reason(answer.body)}")
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            shown = f"{path.decode('latin-1')} answered without a count: {error}"
            raise self._failed(self._route.targets[0], shown) from None

    def _failed(self, target: Target, error: str) -> CountRefused:
        return CountRefused(refusals.engine_failed(self._route.group, target.url, error))


class _Message(msgspec.Struct):
    message: str


class _Envelope(msgspec.Struct):
    error: _Message | str | None = None
    detail: str | None = None
    message: str | None = None


def reason(body: bytes) -> str:
    """An engine's own words for an error, from the usual envelopes, or else the beginning of its answer."""
    try:
        envelope = msgspec.json.decode(body, type=_Envelope)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        envelope = _Envelope()
    error = envelope.error.message if isinstance(envelope.error, _Message) else envelope.error
    words = error or envelope.detail or envelope.message or body[: _REASON * 4].decode(errors="replace")
    return words[:_REASON]
