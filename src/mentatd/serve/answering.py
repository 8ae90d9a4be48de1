"""Answers that need waiting: one owned task for each, ended when the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from mentatd.errors import Refusal
from mentatd.http.connection import Connection
from mentatd.http.request import Request
from mentatd.log import log
from mentatd.serve import refusals
from mentatd.tasks import Tasks

Answer = Callable[[Request, Connection], None]
"""Answers a request, now or later."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer of the router's own."""

    status: int
    body: bytes
    content_type: bytes = b"application/json"
    fields: tuple[tuple[bytes, bytes], ...] = ()


class Waiting:
    """The flow of a connection whose answer a task works out."""

    __slots__ = ("_task",)

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def client_paused(self) -> None:
        """Nothing is written before the whole answer is there."""

    def client_resumed(self) -> None:
        """See `client_paused`."""

    def client_lost(self) -> None:
        self._task.cancel()


class Answering:
    """Owns the tasks that work out answers."""

    def __init__(self) -> None:
        self._tasks = Tasks("answering")

    def later(self, connection: Connection, work: Coroutine[Any, Any, Reply | Refusal], name: str) -> None:
        """Answer `connection` with what `work` returns; a crash of it is a 500 and one log line."""
        connection.flow = Waiting(self._tasks.start(self._answer(connection, work), name))

    async def _answer(self, connection: Connection, work: Coroutine[Any, Any, Reply | Refusal]) -> None:
        try:
            reply = await work
        except Exception as error:  # whatever it is, this client gets an answer and no other one notices
            log("request_crashed", error=f"{type(error).__name__}: {error}")
            reply = refusals.internal_error()
        if isinstance(reply, Refusal):
            connection.refuse(reply)
        else:
            connection.answer(reply.status, reply.body, reply.content_type, reply.fields)

    async def close(self) -> None:
        """End every answer that is still being worked out."""
        await self._tasks.close()
