"""The one owner of a lite daemon's state: takes what happens, keeps the next state, tells the subscribers."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence

from mentatd.lite import peers, report, state
from mentatd.lite.settings import Lifetimes
from mentatd.lite.state import Address, AgentKey, State, Step
from mentatd.log import log
from mentatd.wire.mesh import MeshNode
from mentatd.wire.messages import AgentRegister
from mentatd.wire.snapshot import View

MAX_BACKLOG = 256
"""Events that wait for one subscriber; one that is further behind is cut, and reads a snapshot when it returns."""


def _unix_ms() -> int:
    return time.time_ns() // 1_000_000


class Subscription:
    """The events of one subscriber, in order."""

    def __init__(self, first: str, *, own: bool) -> None:
        self.first = first
        """The snapshot after which the events come."""
        self.own = own
        """This daemon's own events only: what peers told it goes no further."""
        self._frames: asyncio.Queue[str | None] = asyncio.Queue(MAX_BACKLOG)
        self._ended = False

    def put(self, frame: str) -> None:
        """Add one event; one that finds no room ends the subscription."""
        if self._frames.full():
            self.end()
        else:
            self._frames.put_nowait(frame)

    def end(self) -> None:
        """`next` gives None from now on, whatever still waits."""
        self._ended = True
        if not self._frames.full():
            self._frames.put_nowait(None)

    async def next(self) -> str | None:
        """The next event; None when the subscription has ended, so that the subscriber has to start again."""
        frame = None if self._ended else await self._frames.get()
        return None if self._ended else frame


class Daemon:
    """One node's agents and peers. Every method is synchronous: between two of them the state is whole."""

    def __init__(
        self,
        initial: State,
        *,
        now_ms: Callable[[], int] = _unix_ms,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`now_ms` is Unix time in milliseconds, `now_s` seconds on a clock that never jumps."""
        self.state = initial
        self._now_ms = now_ms
        self._now_s = now_s
        self._links = itertools.count(1)
        self._subscriptions: set[Subscription] = set()

    def new_link(self) -> int:
        """A number for one more connection."""
        return next(self._links)

    def register(self, said: AgentRegister, peer: str, link: int) -> bool:
        """Take a registration; False when there are too many agents for another."""
        return self._take(state.register(self.state, said, peer, link))

    def lose(self, key: AgentKey, link: int) -> None:
        """The connection that an agent registered over has ended."""
        self._take(state.lose(self.state, key, link, self._now_ms()))

    def note(self, key: AgentKey, link: int, service: str, text: str) -> None:
        """Take an agent's finding about one of its services."""
        self._take(state.note(self.state, key, link, service, text))

    def sweep(self, settings: Lifetimes) -> None:
        """Agents and peers that are gone or silent for long: degraded, dead, stale, at last forgotten."""
        now_ms = self._now_ms()
        degraded_ms, dead_ms = settings.agent_degraded_ms, settings.agent_dead_ms
        self._take(state.age(self.state, now_ms, degraded_ms=degraded_ms, dead_ms=dead_ms))
        self._take(peers.notice_silence(self.state, self._now_s() - settings.peer_stale_ms / 1000))
        self._take(state.sweep(self.state, now_ms - settings.history_keep_ms))
        self._take(peers.forget(self.state, now_ms - settings.history_keep_ms))

    def move(self, addrs: Sequence[Address]) -> None:
        """The addresses of this node as they are now, most preferred first."""
        self._take(state.move(self.state, addrs))

    def join_mesh(self, node: MeshNode, *, link: int, link_ip: str, dialled: bool) -> bool:
        """Take a new mesh link; False when another link to that node is to be kept instead."""
        now_ms, now_s = self._now_ms(), self._now_s()
        if not peers.takes(self.state, node.node_id, dialled=dialled, now_s=now_s):
            return False
        step = peers.join_mesh(
            self.state, node, link=link, link_ip=link_ip, dialled=dialled, now_ms=now_ms, now_s=now_s
        )
        self._take(step)
        return True

    def hear(self, node_id: str, link: int, view: View) -> None:
        """A peer told its status."""
        self._take(peers.hear(self.state, node_id, link, view, now_ms=self._now_ms(), now_s=self._now_s()))

    def leave(self, node_id: str, link: int, why: str) -> None:
        """The mesh link to a peer has ended."""
        self._take(peers.leave(self.state, node_id, link, why, self._now_ms()))

    def relay(self, event: bytes) -> None:
        """Pass a peer's event to those who listen here, and to no other peer."""
        frame = report.relayed(event)
        for subscription in self._subscriptions:
            if not subscription.own:
                subscription.put(frame)

    def subscribe(self, *, own: bool = False) -> Subscription:
        """Everything from now on: a snapshot, and each event after it. `unsubscribe` is the caller's duty."""
        subscription = Subscription(report.first_frame(self.state), own=own)
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """No more events."""
        self._subscriptions.discard(subscription)

    @property
    def subscribers(self) -> int:
        """How many listen to the events, peers apart."""
        return sum(not subscription.own for subscription in self._subscriptions)

    def _take(self, step: Step) -> bool:
        """Make a step the current state and tell of it; True when anything changed."""
        self.state, changes = step
        for change in changes:
            fields = {"group": change.key.group, "agent": change.key.id} if change.key else {}
            if change.peer:
                fields = {"peer": change.peer}
            log(change.kind, **fields, **({"why": change.why} if change.why else {}))
            frame = report.event_frame(self.state, change, self._now_ms())
            for subscription in self._subscriptions:
                subscription.put(frame)
        return bool(changes)
