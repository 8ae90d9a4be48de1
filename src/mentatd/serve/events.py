"""A daemon's `/events` WebSocket, held open: each frame only says "re-read /status" (wire.md section 1)."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from mentatd import __version__
from mentatd.log import log

OPEN_TIMEOUT_S = 5.0
PING_S = 15.0
"""Between pings of ours; a daemon that has vanished without a word is noticed within two."""
FRAME_LIMIT = 64 << 20
"""Bytes of one message; the first holds the whole snapshot."""
RETRY_FIRST_S = 0.5
RETRY_LIMIT_S = 10.0
"""The back-off's cap: no more than a poll's usual interval, for the polls find a daemon again too."""
STEADY_S = 5.0
"""What lasted this long ends the back-off: a daemon that hangs up at once is not dialled in a loop."""
BURST = 100
REST_S = 0.1
"""After each `BURST` frames the reader rests: a daemon that floods costs little, and TCP holds it back."""

_quiet = logging.Logger("mentatd.events", logging.CRITICAL)
"""What goes wrong on a WebSocket is said in a line of ours, once."""


class _Direct(connect):
    """A redirect could lead outside ALLOWED_SOURCES: it is an error."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class Events:
    """The events of one daemon.

    `heard` is called on connecting, for each frame, and when the connection is lost, for then too the
    daemon's state is worth a look.
    """

    def __init__(self, daemon: str, heard: Callable[[], None]) -> None:
        """`daemon`: its HTTP address, `10.0.0.1:6380`."""
        self.connected = False
        self._daemon = daemon
        self._heard = heard
        self._retry = asyncio.Event()

    def retry(self) -> None:
        """The daemon answers again: do not wait out the back-off."""
        self._retry.set()

    async def run(self) -> None:
        """Connect, listen, and connect again, until cancelled."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            self._retry.clear()
            began = loop.time()
            try:
                reason = await self._listen()
            finally:
                was_connected, self.connected = self.connected, False
            steady = was_connected and loop.time() >= began + STEADY_S
            if steady or not failures:
                log("daemon_events_lost", daemon=self._daemon, error=reason)
            failures = 1 if steady else failures + 1
            if was_connected:
                self._heard()
            await self._back_off(failures)

    async def _listen(self) -> str:
        """Hold one connection until it ends; return why it did."""
        try:
            async with self._connect() as socket:
                self.connected = True
                frames = 0
                while True:
                    self._heard()
                    await socket.recv(decode=False)
                    frames += 1
                    if frames % BURST == 0:
                        await asyncio.sleep(REST_S)
        except TimeoutError:
            return f"no answer within {OPEN_TIMEOUT_S:g} s"
        except (OSError, WebSocketException, ValueError) as error:
            return str(error) or type(error).__name__

    def _connect(self) -> connect:
        return _Direct(
            f"ws://{self._daemon}/events",
            compression=None,
            user_agent_header=f"mentatd-serve/{__version__}",
            proxy=None,
            open_timeout=OPEN_TIMEOUT_S,
            ping_interval=PING_S,
            ping_timeout=PING_S,
            close_timeout=1.0,
            max_size=FRAME_LIMIT,
            max_queue=1,
            logger=_quiet,
        )

    async def _back_off(self, failures: int) -> None:
        limit = min(RETRY_LIMIT_S, RETRY_FIRST_S * 2.0 ** min(failures - 1, 10))
        try:
            async with asyncio.timeout(limit * random.uniform(0.5, 1.0)):  # noqa: S311 - no secret
                await self._retry.wait()
        except TimeoutError:
            pass
