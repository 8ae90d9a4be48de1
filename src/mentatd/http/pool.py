"""Every connection to an engine, and which idle one may be used again.

The choice is synchronous: `take` looks at what lies there and gives one out or None, and `connect` is then
the one place that waits. How long a connection may lie idle is decided in `reuse.py`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final, cast

from mentatd.errors import ConnectFailed
from mentatd.http import reuse
from mentatd.http.dialing import addresses_of, keep_alive, summary
from mentatd.http.faults import describe
from mentatd.http.unanswered import PATIENCE_S, Unanswered
from mentatd.http.upstream import ResponseHead, Upstream
from mentatd.origin import Origin

MAX_IDLE_PER_ORIGIN = 256
MAX_IDLE = 1024
PROOF_S: Final = 0.05
"""Idle for this long, a connection shows that its engine does not close each behind its answer. Before one has, none
is used again: the close may be on its way."""
_SWEEP_S = 1.0
"""How often idle connections past their time are closed (`take` itself never gives one out)."""
_LEARNED_FOR_S: Final = 300.0
"""How long an origin's shortened reuse window stays where no request comes that could show it to be wrong."""
_CLOSE_S: Final = 1.0
"""How long `close` waits for the transports to say that they are gone."""


class _Site:
    """What the pool holds of one origin."""

    __slots__ = ("idle", "keeps", "learned", "learned_at", "witness")

    def __init__(self) -> None:
        self.idle: list[Upstream] = []
        """Newest last."""
        self.keeps = False
        """The engine has kept a connection behind an answer for as long as proves it."""
        self.learned = reuse.NO_LIMIT
        """The reuse window that its closed connections taught."""
        self.learned_at = 0.0
        self.witness: Upstream | None = None
        """Never taken: it lies there to show how long the engine keeps a connection, while less than usual is
        expected of it. An engine that restarts under load closes all of them and says nothing about idle ones."""


class Pool:
    """Owns every upstream connection. The decision which idle connection may be reused is synchronous."""

    def __init__(
        self, tls: Callable[[], ssl.SSLContext] = ssl.create_default_context, proof_s: float = PROOF_S
    ) -> None:
        """`tls` makes the context for https origins; called once, when the first is met."""
        self._make_context = tls
        self._proof_s = proof_s
        self._context: ssl.SSLContext | None = None
        self._sites: dict[Origin, _Site] = {}
        # kept: to ask for it is a system call each time
        self._loop = asyncio.get_running_loop()
        self._open: set[Upstream] = set()
        self._unanswered: Unanswered[Upstream] = Unanswered()
        self._idle_count = 0
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False
        self._emptied: asyncio.Event | None = None

    def __len__(self) -> int:
        """Open connections, idle or not."""
        return len(self._open)

    def take(self, origin: Origin) -> Upstream | None:
        """An idle connection that is safe to reuse now (newest first), or None."""
        site = self._sites.get(origin)
        if site is None:
            return None
        idle, learned, now = site.idle, site.learned, self._loop.time()
        if not (site.keeps or self._prove(site, now)):
            return None
        while idle:
            upstream = idle.pop()
            self._idle_count -= 1
            idle_s = now - upstream.idle_since
            if idle_s >= upstream.window or idle_s >= learned:
                self._discard(upstream)
            elif not upstream.usable():
                self._learn(site, upstream, idle_s)
                self._discard(upstream)
            else:
                upstream.idle = False
                upstream.idle_s = idle_s
                upstream.reused = True
                return upstream
        return None

    def _prove(self, site: _Site, now: float) -> bool:
        """Whether the connection that has been idle for the longest shows that the engine keeps them."""
        if not site.idle or (idle_s := now - site.idle[0].idle_since) < self._proof_s:
            return False
        site.keeps = site.idle[0].usable()
        if not site.keeps:
            oldest = site.idle.pop(0)
            self._idle_count -= 1
            self._learn(site, oldest, idle_s)
            self._discard(oldest)
        return site.keeps

    async def connect(self, origin: Origin, *, timeout: float) -> Upstream:  # noqa: ASYNC109
        """A new connection within `timeout` seconds. Raises ConnectFailed with what was tried and what came
        back.

        A cancelled connect leaves nothing behind."""
        if self._closed:
            raise ConnectFailed(origin, "not connected, the router is stopping")
        try:
            async with asyncio.timeout(timeout):
                upstream = await self._dial(origin)
        except TimeoutError:
            raise ConnectFailed(origin, f"timed out after {round(timeout, 2):g} s, connecting") from None
        if self._closed or not upstream.open:
            upstream.close()
            raise ConnectFailed(origin, "closed as soon as it was connected")
        self._open.add(upstream)
        self._watch_over()
        return upstream

    async def _dial(self, origin: Origin) -> Upstream:
        """Connect to the first of the name's addresses that answers. Raises ConnectFailed."""
        try:
            context = await self._tls_context() if origin.tls else None
            addresses = await addresses_of(origin)
        except (OSError, ValueError, OverflowError) as error:
            raise ConnectFailed(origin, describe(error)) from error
        failures: dict[str, str] = {}
        for address in addresses:
            try:
                transport, made = await self._loop.create_connection(
                    partial(self._new, origin),
                    address,
                    origin.port,
                    ssl=context,
                    server_hostname=origin.host if context else None,
                    ssl_shutdown_timeout=_CLOSE_S if context else None,
                )
            except OSError as error:
                failures[address] = describe(error)
                if isinstance(error, ConnectionRefusedError) and (site := self._sites.get(origin)):
                    # the engine restarts: that it closed its connections said nothing about how long it keeps
                    # them
                    site.learned = reuse.NO_LIMIT
            else:
                keep_alive(transport.get_extra_info("socket"))
                return cast(Upstream, made)
        raise ConnectFailed(origin, summary(failures))

    def _new(self, origin: Origin) -> asyncio.Protocol:
        return cast(asyncio.Protocol, Upstream(origin, self))

    async def _tls_context(self) -> ssl.SSLContext:
        if self._context is None:
            # reads the certificate store: some 10 ms of file work
            self._context = await asyncio.to_thread(self._make_context)
        return self._context

    def finished(self, upstream: Upstream, head: ResponseHead) -> None:
        """Keep a connection that has carried an exchange and may carry another (called by it)."""
        site = self._site(upstream.origin)
        field = head.keep_alive_field
        said = reuse.read_keep_alive(field) if field else reuse.NOTHING_SAID
        upstream.window = reuse.window(said, served=upstream.served, learned=site.learned)
        if site.learned < reuse.NO_LIMIT and site.witness is None and not self._closed:
            self._watch(site, upstream, reuse.window(said, served=upstream.served))
            return
        full = len(site.idle) >= MAX_IDLE_PER_ORIGIN or self._idle_count >= MAX_IDLE
        if self._closed or full or upstream.window <= 0:
            upstream.close()
            return
        upstream.idle_since = self._loop.time()
        upstream.idle = True
        site.idle.append(upstream)
        self._idle_count += 1

    def _watch(self, site: _Site, upstream: Upstream, window: float) -> None:
        """Leave a connection alone for as long as it would be kept of an engine that has taught nothing."""
        if window <= 0:
            upstream.close()
            return
        upstream.window = window
        upstream.idle_since = self._loop.time()
        upstream.idle = True
        site.witness = upstream

    def _hear(self, site: _Site, now: float) -> None:
        """An engine that has kept the witness for its whole window keeps others as long."""
        witness = site.witness
        if witness is None or now - witness.idle_since < witness.window:
            return
        if witness.usable():
            site.learned = reuse.NO_LIMIT
        site.witness = None
        self._discard(witness)

    def _site(self, origin: Origin) -> _Site:
        site = self._sites.get(origin)
        if site is None:
            site = self._sites[origin] = _Site()
        return site

    def _watch_over(self) -> None:
        """Sweep from now on."""
        if self._sweeper is None and not self._closed:
            self._sweeper = self._loop.call_later(_SWEEP_S, self._sweep)

    def lost(self, upstream: Upstream) -> None:
        """Forget a closed connection, and learn from it when the engine closed it as idle (called by it)."""
        self._open.discard(upstream)
        site = self._sites.get(upstream.origin)
        if site is not None:
            if upstream is site.witness:
                site.witness = None
                site.learned_at = self._loop.time()
                site.learned = reuse.learn(site.learned_at - upstream.idle_since)
            elif upstream.idle:
                site.idle.remove(upstream)
                self._idle_count -= 1
                upstream.idle = False
                self._learn(site, upstream, self._loop.time() - upstream.idle_since)
            elif upstream.found_closed:
                self._learn(site, upstream, upstream.idle_s)
        if self._emptied is not None and not self._open:
            self._emptied.set()

    def _learn(self, site: _Site, upstream: Upstream, idle_s: float) -> None:
        """The engine closed a connection after `idle_s` seconds without a request; news only within its window."""
        if idle_s < min(upstream.window, site.learned):
            site.learned = reuse.learn(idle_s)
            site.learned_at = self._loop.time()
            site.keeps = False

    def _discard(self, upstream: Upstream) -> None:
        upstream.idle = False
        upstream.close()

    def _sweep(self) -> None:
        """Close what has been idle for too long or is sent to in vain; forget origins of which nothing is left to
        know."""
        now = self._loop.time()
        self._sweeper = None
        for upstream in self._unanswered.look(self._open, now):
            upstream.fail(f"gone without a word: nothing acknowledged for {PATIENCE_S:g} s")
        for origin, site in list(self._sites.items()):
            expired = [u for u in site.idle if now - u.idle_since >= min(u.window, site.learned)]
            for upstream in expired:
                site.idle.remove(upstream)
                self._discard(upstream)
            self._idle_count -= len(expired)
            self._hear(site, now)
            if now - site.learned_at >= _LEARNED_FOR_S:
                site.learned = reuse.NO_LIMIT
            if not site.idle and site.witness is None and site.learned == reuse.NO_LIMIT:
                del self._sites[origin]
        if self._sites or self._open:
            self._watch_over()

    async def close(self) -> None:
        """Close every connection, idle or not."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for upstream in list(self._open):
            upstream.fail("cut off, the router is stopping")
        if not self._open:
            return
        self._emptied = asyncio.Event()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._emptied.wait()
        except TimeoutError:
            pass
