"""`mentatd-serve`: the router. The environment configures it (`mentatd.settings`)."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sys
from typing import Any

import uvloop

from mentatd import __version__
from mentatd.errors import SettingsError
from mentatd.log import log
from mentatd.notify import READY, STOPPING, notify
from mentatd.settings import Settings, help_text, read_settings

PROG = "mentatd-serve"
FAILED = 1
USAGE = 2
DESCRIPTORS = 1 << 20
"""The soft limit where the system sets no hard one."""
SWITCH_S = 0.001
"""How long a thread (a large body, a snapshot, a scrape) may keep the interpreter while the event loop waits."""
YOUNG, MIDDLE, OLD = 20_000, 20, 20
"""The collector's thresholds: the hot path makes hardly a cycle, so looking for them seldom costs nothing."""


def main() -> None:
    """Exit status: 0 ended by a signal, 1 it cannot run (the reason is on standard error), 2 wrong arguments."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        sys.stdout.write(f"{PROG} {__version__}\n")
    elif arguments == ["--help"]:
        sys.stdout.write(help_text())
    elif arguments:
        sys.stderr.write(help_text().partition("\n")[0] + "\n")
        raise SystemExit(USAGE)
    else:
        raise SystemExit(_serve())


def _serve() -> int:
    """Run the router until a signal ends it."""
    try:
        settings = read_settings(os.environ)
        _raise_descriptor_limit()
        sys.setswitchinterval(SWITCH_S)
        uvloop.run(_run(settings))
    except (SettingsError, OSError) as error:
        sys.stderr.write(f"{PROG}: {error}\n")
        return FAILED
    return 0


async def _run(settings: Settings) -> None:
    """Serve until a first signal, end in order, and at once after a second one."""
    # not on top of the file: --version and --help need none of it
    from mentatd.serve.app import Router

    stop, cut = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_crashed)

    def signalled() -> None:
        (cut if stop.is_set() else stop).set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signalled)
    router = Router(settings)
    try:
        await router.start(stop)
        _settle_garbage()
        if not stop.is_set():
            notify(os.environ, READY)
        await stop.wait()
        notify(os.environ, STOPPING)
        await router.stop(cut)
    finally:
        await router.close()


def _crashed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A callback of the loop has failed: a line in the log like any other, and the router goes on."""
    log("callback_crashed", message=context.get("message"), error=repr(context.get("exception")))


def _raise_descriptor_limit() -> None:
    """Each stream needs two descriptors, and the usual soft limit of 1024 is for programs that use `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        log("descriptor_limit_kept", limit=soft, error=error)


def _settle_garbage() -> None:
    """What was made at start stays: the collector does not look at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)


if __name__ == "__main__":
    main()
