"""Keeps one engine announced: dials the daemon, registers, holds the link, and dials again when it is lost.

An agent never gives up: daemons and engines may be started in any order. It says once why it cannot
register, and again only when the reason changes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping

from mentatd.link import Link, LinkLost, dial
from mentatd.log import log
from mentatd.register.backoff import wait_s
from mentatd.register.bindwatch import BindWatch
from mentatd.register.settings import RegisterSettings
from mentatd.tasks import Tasks
from mentatd.wire.messages import (
    AgentRegister,
    AgentRegisterOk,
    Err,
    Ping,
    Pong,
    ServiceNote,
    Unknown,
    Unreadable,
)

PING_EVERY_S = 2.0
"""wire.md section 4."""

_DIAL_S = 5.0
_REPLY_S = 35.0  # a daemon without a head says so only after thirty seconds
_SILENT_S = 15.0  # every ping is answered; seven unanswered ones are a dead daemon
_STEADY_S = 10.0  # a link that held for less does not count as success: a daemon that hangs up at once


class Agent:
    """One engine's registration with one daemon."""

    def __init__(
        self,
        settings: RegisterSettings,
        registration: Callable[[Mapping[str, str]], AgentRegister],
        watch: BindWatch,
        *,
        chance: Callable[[], float] = random.random,
        ping_every_s: float = PING_EVERY_S,
    ) -> None:
        """`registration` makes the opening frame from the notes that are in force."""
        self._settings = settings
        self._registration = registration
        self._watch = watch
        self._chance = chance
        self._ping_every_s = ping_every_s
        self._tasks = Tasks("register")
        self._link: Link | None = None
        self._told: dict[str, str] = {}
        self._said = ("", "")

    async def run(self) -> None:
        """Hold the registration until cancelled; the link is then closed in order."""
        self._tasks.start(self._watch.run(self._tell), "bind")
        failures = 0
        try:
            while True:
                failures = 0 if await self._attempt() >= _STEADY_S else failures + 1
                await asyncio.sleep(wait_s(max(failures, 1), self._chance()))
        finally:
            await self._tasks.close()

    async def _attempt(self) -> float:
        """Dial, register and hold; returns for how many seconds it held."""
        loop = asyncio.get_running_loop()
        host, port = self._settings.daemon
        try:
            link = await dial(host, port, _DIAL_S)
        except LinkLost as lost:
            self._say_once("register_failed", str(lost))
            return 0.0
        started: float | None = None
        try:
            if await self._register(link):
                started = loop.time()
                await self._hold(link)
        except LinkLost as lost:
            if started is None:
                self._say_once("register_failed", str(lost))
            else:
                log("register_lost", daemon=f"{host}:{port}", group=self._settings.group, why=lost)
        finally:
            self._link = None
            await link.close()
        return 0.0 if started is None else loop.time() - started

    async def _register(self, link: Link) -> bool:
        """Send the opening frame and judge the reply; False when it was refused."""
        host, port = self._settings.daemon
        frame = self._registration(self._watch.notes)
        await link.send(frame)
        match await link.receive(_REPLY_S):
            case AgentRegisterOk(node_id=node_id):
                log("register_up", daemon=f"{host}:{port}", agent=frame.agent_id, node=node_id)
            case Err(error=error, code=code):
                hint = " (see --proto)" if code == "proto_mismatch" else ""
                self._say_once("register_failed", f"{host}:{port}: refused: {error}{hint}")
                return False
            case None:
                raise LinkLost(f"{host}:{port}: closed without a reply")
            case reply:
                raise LinkLost(f"{host}:{port}: answered {type(reply).__name__} to the registration")
        self._said = ("", "")
        self._told = dict(frame.notes)
        self._link = link
        await self._tell()
        return True

    async def _hold(self, link: Link) -> None:
        """Ping and read until the link ends."""
        pings = self._tasks.start(self._ping(link), "ping")
        try:
            while (message := await link.receive(_SILENT_S)) is not None:
                match message:
                    case Ping(req):
                        await link.send(Pong(req))
                    case Unknown(type=name, req=req):
                        # placement: an agent that only announces has nothing to place on
                        await link.send(
                            Err(req, f"mentatd-register does not know {name!r}", "unknown_message")
                        )
                    case Err(error=error) | Unreadable(error=error):
                        self._say_once("daemon_error", f"{link.peer}: {error}")
                    case _:
                        pass
        finally:
            pings.cancel()
        raise LinkLost(f"{link.peer}: closed by the daemon")

    async def _ping(self, link: Link) -> None:
        req = 1
        try:
            while True:
                await asyncio.sleep(self._ping_every_s)
                await link.send(Ping(req := req + 1))
        except LinkLost:
            link.cut()

    async def _tell(self) -> None:
        """Send each note that the daemon does not know; without a link the next registration carries them."""
        link = self._link
        try:
            for service, note in self._watch.notes.items():
                if link is not None and self._told.get(service, "") != note:
                    self._told[service] = note
                    await link.send(ServiceNote(service, note))
        except LinkLost:
            assert link is not None
            link.cut()

    def _say_once(self, event: str, why: str) -> None:
        """Log what went wrong, unless it is what went wrong before."""
        if (event, why) != self._said:
            self._said = (event, why)
            log(event, group=self._settings.group, why=why)
