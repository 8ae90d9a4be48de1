"""A small HTTP client for the router's own questions: probes, polls, metrics, tokenize, MCP.  (Contract.)"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from mentatd.http.pool import Pool


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    fields: tuple[tuple[bytes, bytes], ...]
    """Names in lower case, in order."""
    body: bytes
    reused: bool
    """It came over a connection that had carried an exchange before."""

    def get(self, name: bytes) -> bytes | None:
        """The first field called `name` (lower case)."""
        raise NotImplementedError


class Streaming:
    """An answer whose body is read piece by piece."""

    status: int
    fields: tuple[tuple[bytes, bytes], ...]

    def get(self, name: bytes) -> bytes | None:
        raise NotImplementedError

    def pieces(self) -> AsyncIterator[bytes]:
        """The body without framing; bounded buffering, the engine is paused when the reader is slow."""
        raise NotImplementedError


class Client:
    """Asks one question at a time over pooled connections. Never repeats a question by itself, with one exception:
    `retry_reused` (probe and status poll) asks once more on a fresh connection when a reused one fails."""

    def __init__(self, pool: Pool) -> None:
        raise NotImplementedError

    async def ask(
        self,
        method: str,
        url: str,
        *,
        deadline: float,
        limit: int,
        fields: Mapping[str, str] | None = None,
        body: bytes | None = None,
        retry_reused: bool = False,
        keep: bool = True,
    ) -> Answer:
        """One request and its whole answer within `deadline` seconds and `limit` bytes of body.

        Raises ConnectFailed, UpstreamTimeout, UpstreamBroken, AnswerTooLarge. A redirect is an answer like any.
        """
        raise NotImplementedError

    def stream(
        self,
        method: str,
        url: str,
        *,
        deadline: float,
        fields: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> AbstractAsyncContextManager[Streaming]:
        """The same with the body read piece by piece; leaving the context before its end closes the connection."""
        raise NotImplementedError
