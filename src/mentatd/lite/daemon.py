"""The one owner of a lite daemon's state: takes what happens, keeps the next state, tells the subscribers."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping

from mentatd.lite import report, state
from mentatd.lite.state import AgentKey, State, Step
from mentatd.log import log
from mentatd.wire.messages import AgentRegister

MAX_BACKLOG = 256
"""Events that wait for one subscriber; one that is further behind is cut, and reads a snapshot when it returns."""


def _unix_ms() -> int:
    return time.time_ns() // 1_000_000


class Subscription:
    """The events of one subscriber, in order."""

    def __init__(self, first: str) -> None:
        self.first = first
        """The snapshot after which the events come."""
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
    """One node's agents. Every method is synchronous: between two of them the state is whole."""

    def __init__(self, initial: State, *, now_ms: Callable[[], int] = _unix_ms) -> None:
        """`now_ms` is Unix time in milliseconds."""
        self.state = initial
        self._now_ms = now_ms
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

    def sweep(self, keep_ms: int) -> None:
        """Forget agents that have been lost for longer than `keep_ms`."""
        self._take(state.sweep(self.state, self._now_ms() - keep_ms))

    def move(self, ifaces: Mapping[str, str]) -> None:
        """The addresses of this node as they are now, each with its interface."""
        self._take(state.move(self.state, ifaces))

    def subscribe(self) -> Subscription:
        """Everything from now on: a snapshot, and each event after it. `unsubscribe` is the caller's duty."""
        subscription = Subscription(report.first_frame(self.state))
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """No more events."""
        self._subscriptions.discard(subscription)

    @property
    def subscribers(self) -> int:
        """How many listen to the events."""
        return len(self._subscriptions)

    def _take(self, step: Step) -> bool:
        """Make a step the current state and tell of it; True when anything changed."""
        self.state, changes = step
        for change in changes:
            fields = {"group": change.key.group, "agent": change.key.id} if change.key else {}
            log(change.kind, **fields, **({"why": change.why} if change.why else {}))
            frame = report.event_frame(self.state, change, self._now_ms())
            for subscription in self._subscriptions:
                subscription.put(frame)
        return bool(changes)
