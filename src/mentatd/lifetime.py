"""How long a companion runs: until its work ends or a signal ends it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import uvloop

from mentatd.errors import SettingsError

USAGE = 2
"""Exit status of a command that was told something impossible."""


def run_until_signal(work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run `work` and return its exit status, or 0 when SIGINT or SIGTERM cancelled it.

    `work` ends in order when it is cancelled; a second signal cuts that short.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_signalled(work))


async def _signalled(work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        return await work()
    except asyncio.CancelledError:
        return 0


def refuse(prog: str, error: SettingsError, status: int = USAGE) -> NoReturn:
    """End the process with the reason on standard error."""
    sys.stderr.write(f"{prog}: {error}\n")
    raise SystemExit(status)
