"""How each program under test is started in front of the bench's engine."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import string
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import mentatd
from bench.answers import CONTENT, DOCUMENT, MODEL

BIN = Path(sys.executable).parent
START_S = 60.0
STOP_S = 10.0
POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Running:
    """A program that answers."""

    pid: int
    """Of the process whose family is measured."""
    port: int
    start_s: float = 0.0
    """From its start to the first request that it forwarded."""
    prefix: str = ""
    """What stands before `/v1/…` in the paths that it forwards."""


Program = Callable[[Path, int, str], AbstractContextManager[Running]]
"""Started with a folder of its own, in front of the engine at this port, on these cores (as `taskset` takes them)."""
Clustered = Callable[[Path, Sequence[str], str, str], AbstractContextManager[Running]]
"""Started with a folder, over these daemons (`host:port`), on these cores; ready once it serves this model."""


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
    """It rewrites answers, so that only their status, their size within bounds, chunks and end can be checked."""
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


def ready(running: subprocess.Popen[bytes], port: int, *, loose: bool = False, prefix: str = "") -> Running:
    """Return once the program, started just now, forwards a request.

    `loose`: as in Peer; `prefix`: as in Running. Raises RuntimeError when the program ended or `START_S` are over.
    """
    body = json.dumps({"model": MODEL, "messages": []})
    start = time.monotonic()
    while True:
        try:
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=2)) as connection:
                path, fields = f"{prefix}/v1/chat/completions", {"Content-Type": "application/json"}
                connection.request("POST", path, body, fields)
                response = connection.getresponse()
                answer = response.read()
                if answer == DOCUMENT or (loose and response.status == 200 and CONTENT in answer):
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
    argv = [sys.executable, "-m", "bench.engine", str(port)]
    with process(argv, folder / "engine.log", cores) as running:
        ready(running, port)
        yield port


@contextmanager
def nginx(folder: Path, engine_port: int, cores: str) -> Iterator[Running]:
    """The near-limit: a proxy in C that reads no body."""
    port = free_port()
    template = string.Template(Path(__file__).with_name("nginx.conf").read_text())
    conf = folder / "nginx.conf"
    conf.write_text(template.substitute(folder=folder, port=port, engine=engine_port))
    with process(["nginx", "-p", str(folder), "-c", str(conf)], folder / "nginx.log", cores) as running:
        yield ready(running, port)


@contextmanager
def serve(folder: Path, engine_port: int, cores: str, under: Sequence[str] = ()) -> Iterator[Running]:
    """The router, which found the engine as it finds any: through a daemon and an agent.

    `under`: the command of a tool that runs it.
    """
    control, status, port = free_port(), free_port(), free_port()
    rest = str(max(os.sched_getaffinity(0)))
    lite = ["mentatd-lite", "--bind", "127.0.0.1", "--port", str(control), "--http-port", str(status)]
    agent = ["mentatd-register", "--group", "bench", "--openai", f"{engine_port}/v1"]
    env = {
        "SERVE_PORT": str(port),
        "MENTAT_DAEMONS": f"127.0.0.1:{status}",
        "MENTAT_ANNOUNCE_PORT": "0",
    }
    with ExitStack() as stack:

        def start(argv: Sequence[str], cores: str, under: Sequence[str] = ()) -> subprocess.Popen[bytes]:
            log, command = folder / f"{argv[0]}.log", [sys.executable, str(BIN / argv[0]), *argv[1:]]
            return stack.enter_context(process([*under, *command], log, cores, env))

        start([*lite, "--announce-port", "0"], rest)
        start([*agent, "--address", f"127.0.0.1:{control}"], rest)
        running = start(["mentatd-serve"], cores, under)
        yield ready(running, port)


def _nginx_version() -> str:
    told = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=True).stderr
    return told.strip().rpartition("/")[2]


PROGRAMS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer(
            "nginx",
            "C; a plain streaming proxy that reads no body: the near-limit",
            _nginx_version,
            nginx,
            lambda: shutil.which("nginx") is not None,
        ),
        Peer("mentatd-serve", "Python; this router", lambda: mentatd.__version__, serve, lambda: True),
    )
}
