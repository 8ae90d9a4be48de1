"""Clients that do not wait for each other: a request at each tick, whatever became of those before."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.network.site import HostRouter
from tests.support.cluster import JSON

EVERY_S = 0.04
GIVEN_UP_S = 30.0
"""For each step of one request: what takes longer is lost."""


@dataclass(slots=True)
class Request:
    """One of them, and what became of it."""

    number: int
    outcome: str = "no answer"
    """`200`, another status, or what went wrong on the connection."""


class Traffic:
    """Asks a router for one model for as long as its block runs, and waits for the last answer at its end.

    A connection that is refused is tried again, as any client of a restarting server does; a request that has been
    sent is not.
    """

    def __init__(self, router: Callable[[], HostRouter], model: str) -> None:
        """`router` is whom to ask now."""
        self._router, self._model = router, model
        self._over = threading.Event()
        self._asking: list[threading.Thread] = []
        self.requests: list[Request] = []
        self._ticker = threading.Thread(target=self._tick)

    def __enter__(self) -> Self:
        self._ticker.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _e: object, _t: TracebackType | None) -> None:
        self._over.set()
        self._ticker.join()
        for thread in self._asking:
            thread.join()

    @property
    def answered(self) -> int:
        """How many have a whole answer of 200 by now."""
        return sum(request.outcome == "200" for request in self.requests)

    def _tick(self) -> None:
        while not self._over.wait(EVERY_S):
            request = Request(len(self.requests))
            self.requests.append(request)
            thread = threading.Thread(target=self._ask, args=(request,))
            self._asking.append(thread)
            thread.start()

    def _ask(self, request: Request) -> None:
        body = json.dumps({"model": self._model, "request": request.number}).encode()
        end = time.monotonic() + GIVEN_UP_S
        while True:
            try:
                answer = self._router().ask("POST", "/v1/chat/completions", body, JSON, within_s=GIVEN_UP_S)
                request.outcome = str(answer.status)
                return
            except ConnectionRefusedError as error:
                request.outcome = repr(error)
                if time.monotonic() > end or self._over.wait(EVERY_S):
                    return
            except (OSError, http.client.HTTPException) as error:
                request.outcome = repr(error)
                return
