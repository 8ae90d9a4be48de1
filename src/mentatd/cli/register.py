"""`mentatd-register`: announce engines to a daemon for as long as this runs."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from mentatd.errors import SettingsError
from mentatd.http.client import Client
from mentatd.http.pool import Pool
from mentatd.lifetime import refuse, run_until_signal
from mentatd.notify import READY, notify
from mentatd.options import parse
from mentatd.register.agent import Agent
from mentatd.register.bindwatch import BindWatch
from mentatd.register.discovery import Finder, keep_announced
from mentatd.register.enginefile import read_file
from mentatd.register.engines import read_ports
from mentatd.register.settings import (
    CONFIG,
    DISCOVER,
    HEAD_JSON,
    OPTIONS,
    RegisterSettings,
    check_alone,
    found_settings,
    read_settings,
    registration,
)
from mentatd.tasks import Tasks

PROG = "mentatd-register"
SUMMARY = """\
Announce one engine to a mentat daemon, or several, and hold the announcement for as long as
this runs. It dials again when the daemon goes away, and tells the daemon when an engine does
not listen on every address. A flag goes before its variable. SIGTERM or Ctrl-C ends it: exit 0."""

_MAX_FILE = 1024 * 1024


def main() -> None:
    """Exit status: 0 ended by a signal, 1 a fault of its own, 2 told something impossible."""
    values = parse(PROG, SUMMARY, OPTIONS, sys.argv[1:], os.environ)
    try:
        work = _work(values)
    except SettingsError as error:
        refuse(PROG, error)
    raise SystemExit(run_until_signal(work))


def _work(values: Mapping[str, str]) -> Callable[[], Coroutine[Any, Any, int]]:
    """What to do, from the texts of the options. Raises SettingsError."""
    hostname, head_json = socket.gethostname(), _head_json()
    if text := values[DISCOVER.name]:
        check_alone(values, DISCOVER)
        shared = read_settings(values, hostname=hostname, head_json=head_json)
        return partial(_discover, read_ports(text), shared)
    if path := values[CONFIG.name]:
        check_alone(values, CONFIG)
        try:
            return partial(_announce, read_file(_read(path), values, hostname=hostname, head_json=head_json))
        except SettingsError as error:
            raise SettingsError(f"{CONFIG.name}={path}: {error}") from error
    return partial(_announce, [read_settings(values, hostname=hostname, head_json=head_json)])


async def _announce(engines: Sequence[RegisterSettings]) -> int:
    """Hold the registration of each until cancelled; a fault in one ends all."""
    tasks = Tasks("register")
    running = [tasks.start(_agent(engine).run(), f"agent {engine.group}") for engine in engines]
    notify(os.environ, READY)
    try:
        ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        await tasks.close()
    return 0


async def _discover(ports: Sequence[int], shared: RegisterSettings) -> int:
    """Find engines and hold the registration of each until cancelled."""
    pool = Pool()
    notify(os.environ, READY)
    try:
        await keep_announced(
            Finder(Client(pool), ports).look,
            lambda port, known: _agent(
                found_settings(shared, port, known.group, known.engine.provider)
            ).run(),
        )
    finally:
        await pool.close()
    return 0


def _agent(settings: RegisterSettings) -> Agent:
    pid, cpus, memory = os.getpid(), os.cpu_count() or 0, psutil.virtual_memory().total
    return Agent(
        settings,
        lambda notes: registration(settings, notes, pid=pid, cpus=cpus, memory=memory),
        BindWatch(settings.ports),
    )


def _read(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_MAX_FILE + 1)
        text = raw.decode()
    except (OSError, ValueError) as error:
        raise SettingsError(str(error)) from error
    if len(raw) > _MAX_FILE:
        raise SettingsError(f"over {_MAX_FILE} bytes")
    return text


def _head_json() -> str:
    try:
        return Path(HEAD_JSON).read_text()
    except (OSError, UnicodeDecodeError):
        return ""


if __name__ == "__main__":
    main()
