"""One engine, as a token counter asks it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypeAlias, TypeVar

import msgspec

from mentatd.cluster.routes import Route
from mentatd.cluster.targets import Target
from mentatd.errors import ConnectFailed, Refusal, UpstreamError, UpstreamTimeout
from mentatd.http.client import Answer, Client
from mentatd.serve import refusals
from mentatd.serve.connecting import CONNECT_TIMEOUT_S
from mentatd.serve.enginekey import EngineKey
from mentatd.wire.prompt import Prompt

ANSWER_LIMIT = 64 * 1024 * 1024
"""Bytes of one answer: engines list every token beside the count."""
NOT_THERE = (404, 405)
"""What engines answer at a path that they do not know."""

_REASON = 500
"""Characters of an engine's own reason that are passed on (wire.md section 6)."""
_TOO_LITTLE_S = 0.01
"""Seconds in which no further address can be asked; timers may come a moment early."""

_Shape = TypeVar("_Shape")
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
"""A count, as an engine's answer must hold it."""


class CountRefused(Exception):
    """There will be no count; the client is answered with `refusal`."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Counted:
    """A count, and what it leaves out."""

    tokens: int
    """Of the whole prompt, media at flat rates included."""
    uncounted: tuple[str, ...]
    """Kinds of things in the request that the count does not include."""


class TokenCounter(Protocol):
    """How one kind of engine is asked."""

    async def count(self, engine: Engine, prompt: Prompt, request: bytes | None) -> Counted:
        """Count `prompt`, which has messages. Raises CountRefused.

        `request` is the client's body where it is one of OpenAI's route, for engines that have that route too.
        """
        ...


class Engine:
    """The engine of one route, asked within one deadline that begins now.

    A question is sent once. Only an address that takes no connection is passed over for the next one; `suspect` is
    told of it, with the group's name and the base URL.
    """

    def __init__(
        self,
        client: Client,
        route: Route,
        model: str,
        *,
        seconds: float,
        fields: Mapping[str, str],
        key: EngineKey,
        suspect: Callable[[str, str], None],
    ) -> None:
        """`fields`, named in lower case, go with every question; `key` does where they say nothing of one."""
        self.model = model
        self._client = client
        self._group = route.group
        self._trusted = route.trusted
        self._targets = list(route.targets)
        self._failures: list[str] = []
        self._seconds = seconds
        self._until = asyncio.get_running_loop().time() + seconds
        self._fields = fields
        self._key = key
        self._suspect = suspect

    async def post(self, path: bytes, body: bytes) -> Answer:
        """The engine's answer to a POST of JSON, whatever its status. Raises CountRefused when there is none."""
        while self._targets:
            target = self._targets[0]
            try:
                return await self._post(target, path, body)
            except ConnectFailed as error:
                self._suspect(self._group, target.url)
                self._failures.append(str(error))
                if self._left() < _TOO_LITTLE_S:
                    raise self._late(target) from None
                del self._targets[0]
            except UpstreamTimeout:
                raise self._late(target) from None
            except UpstreamError as error:
                raise CountRefused(refusals.engine_failed(self._group, target.url, error.reason)) from None
        raise CountRefused(refusals.engine_unreachable(self._group, self._failures))

    async def _post(self, target: Target, path: bytes, body: bytes) -> Answer:
        own = "authorization" in self._fields
        key = {} if own else self._key.fields(self._group, target.url, self._trusted)
        scheme = "https" if target.origin.tls else "http"
        url = f"{scheme}://{target.authority.decode()}{target.join(path).decode('latin-1')}"
        return await self._client.ask(
            "POST",
            url,
            deadline=max(self._left(), 0.0),
            limit=ANSWER_LIMIT,
            fields={**key, **self._fields, "content-type": "application/json"},
            body=body,
            connect_within=CONNECT_TIMEOUT_S,
        )

    def _left(self) -> float:
        return self._until - asyncio.get_running_loop().time()

    def _late(self, target: Target) -> CountRefused:
        return CountRefused(refusals.engine_timeout(self._group, target.url, self._seconds))

    async def post_json(self, path: bytes, body: object, shape: type[_Shape]) -> _Shape:
        """The engine's 200 answer to `body` as JSON, decoded as `shape`; raises as `post` and `read`."""
        return self.read(path, await self.post(path, msgspec.json.encode(body)), shape)

    def read(self, path: bytes, answer: Answer, shape: type[_Shape]) -> _Shape:
        """Decode a 200 answer to `path` as `shape`.

        Raises CountRefused: 400 with the engine's reason for its 4xx, 502 for anything else.
        """
        where = f"{path.decode('latin-1')} answered"
        if answer.status != 200:
            told = f"{where} HTTP {answer.status}: {reason(answer.body)}"
            if 400 <= answer.status < 500:
                raise CountRefused(refusals.invalid_prompt(f"group {self._group}: {told}"))
            raise self.failed(told)
        try:
            return msgspec.json.decode(answer.body, type=shape)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self.failed(f"{where} without a count: {error}") from None

    def failed(self, error: str) -> CountRefused:
        """502: what came from the address in use is no count."""
        return CountRefused(refusals.engine_failed(self._group, self._targets[0].url, error))


class _Envelope(msgspec.Struct):
    error: Any = None
    detail: Any = None
    message: Any = None


def reason(body: bytes) -> str:
    """An engine's own words for an error, from the usual envelopes, or else the beginning of its answer."""
    try:
        envelope = msgspec.json.decode(body, type=_Envelope)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        envelope = _Envelope()
    error = envelope.error.get("message") if isinstance(envelope.error, dict) else envelope.error
    told = (words for words in (error, envelope.detail, envelope.message) if words and isinstance(words, str))
    return next(told, body[: _REASON * 4].decode(errors="replace"))[:_REASON]
