"""How this router is started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path

import mentatd
from bench.programs import POLL_S, START_S, Peer, Running, free_port, process, ready

BIN = Path(sys.executable).parent
UNPACKED = Path(__file__).parents[1] / "build" / "compiled"
"""Where `make compiled` leaves the compiled wheel, unpacked."""
Build = Mapping[str, str]
"""What the environment says of where the package is."""
PLAIN: Build = {}
COMPILED: Build = {"PYTHONPATH": str(UNPACKED)}


@contextmanager
def daemon(folder: Path, engine_port: int) -> Iterator[str]:
    """A daemon with an agent that announces the engine; the daemon's `host:port`."""
    control, status = free_port(), free_port()
    rest = str(max(os.sched_getaffinity(0)))
    lite = ["--bind", "127.0.0.1", "--port", str(control), "--http-port", str(status), "--announce-port", "0"]
    agent = ["--group", "bench", "--openai", f"{engine_port}/v1", "--address", f"127.0.0.1:{control}"]
    with (
        _command(folder, rest, ["mentatd-lite", *lite]),
        _command(folder, rest, ["mentatd-register", *agent]),
    ):
        _wait_announced(status)
        yield f"127.0.0.1:{status}"


@contextmanager
def serve(
    folder: Path, engine_port: int, cores: str, under: Sequence[str] = (), build: Build = PLAIN
) -> Iterator[Running]:
    """The router, which found the engine as it finds any: through a daemon and an agent.

    `under`: the command of a tool that runs it.
    """
    port = free_port()
    with (
        daemon(folder, engine_port) as address,
        _command(folder, cores, ["mentatd-serve"], under, {**build, **settings(port, [address])}) as running,
    ):
        yield ready(running, port)


@contextmanager
def follow(
    folder: Path, daemons: Sequence[str], model: str, cores: str, build: Build = PLAIN
) -> Iterator[Running]:
    """The router over these daemons."""
    port = free_port()
    with _command(folder, cores, ["mentatd-serve"], env={**build, **settings(port, daemons)}) as running:
        yield ready(running, port, model=model)


def settings(port: int, daemons: Sequence[str]) -> dict[str, str]:
    """The router's environment, which the published one understands too."""
    return {
        "SERVE_PORT": str(port),
        "MENTAT_DAEMONS": ",".join(daemons),
        "MENTAT_ANNOUNCE_PORT": "0",
        "ALLOWED_SOURCES": "127.",
    }


def _command(
    folder: Path,
    cores: str,
    argv: Sequence[str],
    under: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """One of the package's commands."""
    line = [*under, sys.executable, str(BIN / argv[0]), *argv[1:]]
    return process(line, folder / f"{argv[0]}.log", cores, env)


def _wait_announced(status: int) -> None:
    """Until the daemon knows the engine, so that the router's start is what is timed. Raises RuntimeError."""
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        with (
            suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{status}/status", timeout=2) as answer,
        ):
            if json.load(answer)["groups"]:
                return
        time.sleep(POLL_S)
    raise RuntimeError("the daemon has heard of no engine")


ROUTER = Peer(
    "mentatd-serve",
    "Python; this router",
    lambda: mentatd.__version__,
    serve,
    lambda: True,
    cluster=follow,
)
COMPILED_ROUTER = Peer(
    "mentatd-serve-compiled",
    "Python, compiled by mypyc; this router, its optional wheel",
    lambda: mentatd.__version__,
    partial(serve, build=COMPILED),
    lambda: any(UNPACKED.glob("mentatd/http/reading.*.so")),
    cluster=partial(follow, build=COMPILED),
)
OURS = (ROUTER.name, COMPILED_ROUTER.name)
