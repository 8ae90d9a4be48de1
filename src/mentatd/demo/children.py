"""The processes of the demonstration: started, watched and ended together.

None outlives this process, however it ends: each asks the kernel to be killed when its parent dies. Each is in a
session of its own, so that Ctrl-C in a terminal reaches only the parent, which then ends them in order.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mentatd.demo.plan import Program
from mentatd.tasks import Tasks

TERM_S = 4.0
"""From the request to end to the order to end."""
KILL_S = 2.0
"""From there to giving up."""

_TAIL_BYTES = 2000
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Ended:
    """A program that ended although nobody asked it to."""

    name: str
    status: int
    """Its exit status; negative for a signal."""
    tail: str
    """The end of its log."""


class Children:
    """Owns the processes. `close` is the caller's duty on every way out."""

    def __init__(self, logs: Path, environ: Mapping[str, str]) -> None:
        """Each program logs into a file of `logs`; `environ` is what all of them get."""
        self.logs = logs
        self._environ = environ
        self._tasks = Tasks("demo")
        self._running: dict[str, Process] = {}
        self.failed: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        """Done when a program ends on its own."""

    async def start(self, program: Program) -> None:
        """Start one program. Raises OSError."""
        parent = os.getpid()
        with self._log(program.name).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                program.module,
                *program.arguments,
                env={**self._environ, **program.environ},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=lambda: _die_with(parent),
            )
        self._running[program.name] = process
        self._tasks.start(self._watch(program.name, process), program.name)

    async def stop(self, name: str) -> None:
        """End one program and wait until it has ended."""
        if (process := self._running.pop(name, None)) is not None:
            await _end([process])

    async def close(self) -> None:
        """End all programs within some seconds."""
        processes = list(self._running.values())
        self._running.clear()
        await _end(processes)
        await self._tasks.close()

    async def _watch(self, name: str, process: Process) -> None:
        status = await process.wait()
        if self._running.get(name) is process:
            tail = await asyncio.to_thread(self._tail, name)
            if not self.failed.done():
                self.failed.set_result(Ended(name, status, tail))

    def _log(self, name: str) -> Path:
        return self.logs / f"{name.replace(' ', '-')}.log"

    def _tail(self, name: str) -> str:
        with self._log(name).open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return log.read(_TAIL_BYTES).decode("utf-8", "replace")


async def _end(processes: list[Process]) -> None:
    """Ask them to end, then kill those that do not."""
    for number, patience_s in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, KILL_S)):
        for process in processes:
            if process.returncode is None:
                try:
                    process.send_signal(number)
                except ProcessLookupError:
                    pass
        try:
            async with asyncio.timeout(patience_s):
                await asyncio.gather(*(process.wait() for process in processes))
            return
        except TimeoutError:
            continue


def _die_with(parent: int) -> None:
    """In the child, before it becomes the program: be killed when the parent dies (Linux, prctl(2))."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel was asked
        os._exit(1)
