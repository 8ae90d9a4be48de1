"""Scripts for an engine's streams, stepped by the test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from tests.support.deadlines import DEADLINE_S
from tests.support.engine import Exchange
from tests.support.recorded import recorded

CHAT = recorded("vllm-0.32/chat_stream").events
"""The events of one streamed chat completion, `[DONE]` the last."""


class Stepped:
    """Sends one event each time that the test says so; dies in place of the event number `dies_at`."""

    def __init__(self, events: Sequence[bytes] = CHAT, dies_at: int | None = None) -> None:
        self._events = events
        self._dies_at = dies_at
        self._turns = threading.Semaphore(0)
        self.gone = threading.Event()
        """The other side has left before the end."""

    def step(self, count: int = 1) -> None:
        """Let `count` more events go out, the end of the stream counting as one."""
        if count:
            self._turns.release(count)

    def finish(self) -> None:
        """Let everything go out that is left."""
        self.step(len(self._events) + 1)

    async def __call__(self, exchange: Exchange) -> None:
        leaving = asyncio.get_running_loop().create_task(self._watch(exchange))
        try:
            await exchange.begin()
            for number, event in enumerate(self._events):
                await self._turn()
                if number == self._dies_at:
                    exchange.cut()
                    return
                await exchange.event(event)
            await self._turn()
        finally:
            # before the end of the answer: what comes after it is the next request
            leaving.cancel()
            await asyncio.wait([leaving])
        await exchange.end()

    async def _watch(self, exchange: Exchange) -> None:
        await exchange.gone()
        self.gone.set()

    async def _turn(self) -> None:
        taken = await asyncio.to_thread(self._turns.acquire, timeout=DEADLINE_S)
        assert taken or self.gone.is_set(), "the test never stepped the stream on"
