"""What a program under test is, and how it and the bench's engine are started and ended."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.answers import CONTENT, MODEL, document, told

HOSTS = ["127.0.0.1", *(f"127.0.1.{number}" for number in range(1, 21))]
"""Where the engine listens: loopback, and the addresses of the nodes of a cluster on loopback."""
START_S = 60.0
STOP_S = 10.0
POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Running:
    """A program that answers."""

    pid: int
    """Of the process whose family is measured; 0: there is none."""
    port: int
    start_s: float = 0.0
    """From its start to the first request that it forwarded."""
    prefix: str = ""
    """What stands before `/v1/…` in the paths that it forwards."""


Program = Callable[[Path, int, str], AbstractContextManager[Running]]
"""Started with a folder of its own, in front of the engine at this port, on these cores (as `taskset` takes them)."""
Clustered = Callable[[Path, Sequence[str], str, str], AbstractContextManager[Running]]
"""Started with a folder, over these daemons (`host:port`), ready once it serves this model, on these cores."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A program that the bench can measure."""

    name: str
    what: str
    """One line: its language, what kind of program it is."""
    version: Callable[[], str]
    start: Program
    installed: Callable[[], bool]
    cannot: Mapping[str, str] = field(default_factory=dict)
    """Workloads that it is not given, each with the reason."""
    loose: bool = False
    """It rewrites answers, so that only their status, content, number of chunks and end can be checked."""
    cluster: Clustered | None = None
    """How it is started over mentat daemons; None: it reads none."""


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextmanager
def process(
    argv: Sequence[str], log: Path, cores: str, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process on these cores, ended with the block."""
    with log.open("ab") as output:
        running = subprocess.Popen(
            ["taskset", "--cpu-list", cores, *argv],
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.wait(STOP_S)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
        # children that it has left behind
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)


def ready(
    running: subprocess.Popen[bytes], port: int, *, loose: bool = False, prefix: str = "", model: str = MODEL
) -> Running:
    """Return once the program, started just now, forwards a request for `model`.

    `loose`: as in Peer; `prefix`: as in Running. Raises RuntimeError when the program ended or `START_S` are over.
    """
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}]}).encode()
    right = document(told(body))
    start = time.monotonic()
    while True:
        try:
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=2)) as connection:
                path, fields = f"{prefix}/v1/chat/completions", {"Content-Type": "application/json"}
                connection.request("POST", path, body, fields)
                response = connection.getresponse()
                answer = response.read()
                if answer == right or (loose and response.status == 200 and CONTENT in answer):
                    return Running(running.pid, port, round(time.monotonic() - start, 3), prefix)
        except (OSError, http.client.HTTPException):
            pass
        if running.poll() is not None or time.monotonic() - start > START_S:
            raise RuntimeError(f"{running.args!r} does not answer (ended: {running.poll()})")
        time.sleep(POLL_S)


@contextmanager
def engine(folder: Path, cores: str) -> Iterator[int]:
    """The bench's engine; its port."""
    port = free_port()
    argv = [sys.executable, "-m", "bench.engine", str(port), *HOSTS]
    with process(argv, folder / "engine.log", cores) as running:
        ready(running, port)
        yield port
