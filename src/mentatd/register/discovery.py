"""Looks for engines that listen on this machine, and keeps each announced (`--discover`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from mentatd.errors import UpstreamError
from mentatd.http.client import Client
from mentatd.log import log
from mentatd.register import engines
from mentatd.register.bindwatch import read_tables
from mentatd.register.engines import Announced, Engine, Listing
from mentatd.register.procnet import listening
from mentatd.tasks import Tasks
from mentatd.wire.hostport import join

LOOK_EVERY_S = 5.0
"""An engine is announced at most this much later than its API answers."""

_ASK_S = 3.0
_MAX_ANSWER = 4 * 1024 * 1024
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where to ask what listens on every address."""


class Finder:
    """Asks what listens on some ports of this machine."""

    def __init__(
        self,
        client: Client,
        ports: Sequence[int],
        *,
        tables: Callable[[], list[str]] = read_tables,
    ) -> None:
        """`tables` is called in a thread."""
        self._client = client
        self._ports = ports
        self._tables = tables
        self._told: dict[int, str] = {}
        self._known: dict[tuple[int, Listing], Engine] = {}

    async def look(self) -> Mapping[int, Engine | None]:
        """The ports, in the order of their naming, that something listens on, each with the engine that answered.

        Why there is none on a port is logged once.
        """
        bound = listening(await asyncio.to_thread(self._tables))
        here = {port: bound[port] for port in self._ports if port in bound}
        # what stopped may come back as another engine; until then its list alone is asked for
        self._known = {key: engine for key, engine in self._known.items() if key[0] in here}
        found = await asyncio.gather(*(self._ask(port, addresses) for port, addresses in here.items()))
        return {port: self._told_of(port, answer) for port, answer in zip(here, found, strict=True)}

    def _told_of(self, port: int, answer: Engine | str) -> Engine | None:
        if isinstance(answer, Engine):
            self._told.pop(port, None)
            return answer
        if self._told.get(port) != answer:
            self._told[port] = answer
            log("discover_no_engine", port=port, why=answer)
        return None

    async def _ask(self, port: int, addresses: Sequence[str]) -> Engine | str:
        """The engine on one port, or why there is none, or none yet."""
        wild = [address for address in addresses if address in _LOOPBACK]
        host = _LOOPBACK[wild[0]] if wild else addresses[0]
        base = f"http://{join(host, port)}"
        try:
            listing = engines.read_listing(await self._get(f"{base}/v1/models"))
            if listing is None:
                return "its /v1/models lists no model"
            if (port, listing) in self._known:
                return self._known[port, listing]
            if engines.is_router(await self._get(f"{base}/status.json")):
                return "it is a router"
            provider = engines.owner_provider(listing) or await self._provider(base)
        except UpstreamError as error:
            return str(error)
        found = self._known[port, listing] = engines.engine(listing, provider, port)
        return found

    async def _provider(self, base: str) -> str:
        """What an engine is whose models do not tell."""
        if engines.is_version(await self._get(f"{base}/version")):
            return "vllm"
        if engines.is_version(await self._get(f"{base}/api/version")):
            return "ollama"
        return ""

    async def _get(self, url: str) -> bytes:
        """The body; empty when the answer is no 200. Raises UpstreamError."""
        answer = await self._client.ask("GET", url, deadline=_ASK_S, limit=_MAX_ANSWER, keep=False)
        return answer.body if answer.status == 200 else b""


async def keep_announced(
    look: Callable[[], Awaitable[Mapping[int, Engine | None]]],
    announce: Callable[[int, Announced], Coroutine[Any, Any, Any]],
    *,
    every_s: float = LOOK_EVERY_S,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Look again and again, and have one `announce` running for each engine; until cancelled, or one of them fails.

    `announce` is cancelled when its engine is not to be announced any more. Raises what it raises.
    """
    tasks = Tasks("discover")
    running: dict[int, asyncio.Task[Any]] = {}
    announced: Mapping[int, Announced] = {}
    try:
        while True:
            following = engines.decide(announced, await look(), clock())
            announced = following.announced
            for port in following.stop:
                running.pop(port).cancel()
                log("discover_gone", port=port)
            for port in following.start:
                known = announced[port]
                log("discover_found", port=port, group=known.group, provider=known.engine.provider)
                running[port] = tasks.start(announce(port, known), f"engine {port}")
            pause = tasks.start(asyncio.sleep(every_s), "pause")
            done, _ = await asyncio.wait((pause, *running.values()), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            pause.cancel()
    finally:
        await tasks.close()
