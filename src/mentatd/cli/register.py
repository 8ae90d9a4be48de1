"""`mentatd-register`: announce one engine to a daemon for as long as this runs."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import psutil

from mentatd.errors import SettingsError
from mentatd.lifetime import refuse, run_until_signal
from mentatd.options import parse
from mentatd.register.agent import Agent
from mentatd.register.bindwatch import BindWatch
from mentatd.register.settings import HEAD_JSON, OPTIONS, RegisterSettings, read_settings, registration

PROG = "mentatd-register"
SUMMARY = """\
Announce one engine to a mentat daemon, and hold the announcement for as long as this runs.
It dials again when the daemon goes away, and tells the daemon when the engine does not
listen on every address. A flag goes before its variable. SIGTERM or Ctrl-C ends it: exit 0."""


def main() -> None:
    """Exit status: 0 ended by a signal, 1 a fault of its own, 2 told something impossible."""
    values = parse(PROG, SUMMARY, OPTIONS, sys.argv[1:], os.environ)
    try:
        settings = read_settings(values, hostname=socket.gethostname(), head_json=_head_json())
    except SettingsError as error:
        refuse(PROG, error)
    raise SystemExit(run_until_signal(lambda: _run(settings)))


async def _run(settings: RegisterSettings) -> int:
    pid, cpus, memory = os.getpid(), os.cpu_count() or 0, psutil.virtual_memory().total
    agent = Agent(
        settings,
        lambda notes: registration(settings, notes, pid=pid, cpus=cpus, memory=memory),
        BindWatch(settings.ports),
    )
    await agent.run()
    return 0


def _head_json() -> str:
    try:
        return Path(HEAD_JSON).read_text()
    except (OSError, UnicodeDecodeError):
        return ""


if __name__ == "__main__":
    main()
