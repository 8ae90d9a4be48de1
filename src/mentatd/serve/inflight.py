"""What the router is carrying now: the rows of `/stats.json`, each group's load, every request's deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import count, takewhile
from typing import Protocol

from mentatd.log import log

Observer = Callable[["Row"], None]
"""Called with a row that ended."""

_COARSE_S = 0.1
"""Seconds between two looks at the deadlines, at least: a thousand that pass together cost one look."""


class Metered(Protocol):
    """What counts an answer's body while it passes."""

    @property
    def payload_bytes(self) -> int:
        """Bytes so far, without framing."""


class Carrier(Protocol):
    """Who carries the request of a row and is told when its time is over."""

    def deadline_passed(self) -> None:
        """End the request now, and its row with it."""

    def keep_waiting(self, now: float, interval_s: float) -> None:
        """Nothing of the answer's body has come for `interval_s` seconds or more; called again and again."""


class Row:
    """One request in flight. Times are the loop's, in seconds."""

    __slots__ = (
        "address",
        "client",
        "ended",
        "failure",
        "first_byte",
        "group",
        "meter",
        "model",
        "number",
        "passed",
        "path",
        "prompt_bytes",
        "sent",
        "started",
        "status",
        "stream",
    )

    def __init__(
        self,
        model: str,
        group: str,
        address: str,
        client: str,
        path: str,
        prompt_bytes: int,
        stream: bool,
        started: float,
    ) -> None:
        self.number = 0
        """Unique in this process; given by `Inflight`."""
        self.model = model
        """As the client named it."""
        self.group = group
        """Which serves it."""
        self.address = address
        """The base URL that it went to; changes when a connect fails over."""
        self.client = client
        """The client's address."""
        self.path = path
        """The path asked for, without its query."""
        self.prompt_bytes = prompt_bytes
        """Size of the request's body, decoded."""
        self.stream = stream
        """The request asked for a stream."""
        self.started = started
        """When the request was whole and routed."""
        self.first_byte: float | None = None
        """When the first byte of the answer's body came; a head alone does not count."""
        self.ended: float | None = None
        """When the request ended, whichever way."""
        self.meter: Metered | None = None
        """Counts the answer's body while it passes."""
        self.passed = 0
        """At the end: what `meter` had counted."""
        self.sent = False
        """An engine's connection took it."""
        self.status = 0
        """At the end: what the client got, 499 when it left first."""
        self.failure: str | None = None
        """At the end: why it failed."""

    @property
    def id(self) -> str:
        """Unique in this process, as documents and logs write it."""
        return f"{self.number:x}"

    @property
    def out_bytes(self) -> int:
        """Bytes of the answer's body passed on, without framing."""
        return self.passed if self.meter is None else self.meter.payload_bytes


class Inflight:
    """Owns the rows, the count of each group and the deadlines.

    All requests have the same time, `timeout_s` seconds, so the oldest one's deadline is the next: one timer
    serves all of them.
    """

    def __init__(self, timeout_s: float) -> None:
        """Made on the running loop, whose clock it reads."""
        self.timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._rows: dict[Row, Carrier] = {}
        self._load: dict[str, int] = {}
        self._numbers = count(1)
        self._observers: list[Observer] = []
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def count(self, group: str) -> int:
        """Requests in flight to this group."""
        return self._load.get(group, 0)

    def rows(self) -> Iterator[Row]:
        """Oldest first, as they are now."""
        return iter(tuple(self._rows))

    def silent_streams(self, since: float) -> list[Carrier]:
        """Who carries the streams that were routed before `since`, loop time, and have brought nothing yet."""
        old = takewhile(lambda entry: entry[0].started <= since, self._rows.items())
        return [carrier for row, carrier in old if row.stream and row.first_byte is None]

    def on_finished(self, observer: Observer) -> None:
        """Call `observer` at each end, however it comes."""
        self._observers.append(observer)

    def enter(self, row: Row, carrier: Carrier) -> None:
        """Take up a row. The carrier closes it with `leave` on every way out, `deadline_passed` included."""
        row.number = next(self._numbers)
        self._rows[row] = carrier
        self._load[row.group] = self._load.get(row.group, 0) + 1
        if self._timer is None:
            self._arm()

    def leave(self, row: Row, status: int, failure: str | None) -> None:
        """Close a row and tell the observers; does nothing for one that is closed."""
        if self._rows.pop(row, None) is None:
            return
        load = self._load.pop(row.group) - 1
        if load:
            self._load[row.group] = load
        row.ended = self._loop.time()
        row.status = status
        row.failure = failure
        if row.meter is not None:
            row.passed = row.meter.payload_bytes
            row.meter = None
        for observer in self._observers:
            try:
                observer(row)
            except Exception as error:  # an observer's fault is not the request's
                log("observer_failed", request=row.id, error=f"{type(error).__name__}: {error}")

    def close(self) -> None:
        """Watch the deadlines no longer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        oldest = next(iter(self._rows), None)
        if oldest is not None:
            due = max(oldest.started + self.timeout_s, self._loop.time() + _COARSE_S)
            self._timer = self._loop.call_at(due, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        latest = self._loop.time() - self.timeout_s
        due = list(takewhile(lambda row: row.started <= latest, self._rows))
        try:
            for row in due:
                if (carrier := self._rows.get(row)) is not None:
                    carrier.deadline_passed()
        finally:
            self._arm()
