"""Every workload through every program in turn, round by round."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from bench.daemons import host
from bench.machine import cores, reasons
from bench.measure import figures, run
from bench.programs import POLL_S, START_S, Peer, Running, engine, free_port, process
from bench.router import ROUTER
from bench.rows import REBUILD, START, Row
from bench.usage import family, memory_kib, moment
from bench.workloads import WARM, Fleet, Workload, starts

SETTLE_S = 0.5
"""After the start, before the memory of an idle program is read."""
REST_S = 5.0
"""In which a program that follows a cluster is watched at rest: the router's own probe interval."""
REBUILD_LIMIT_S = 120.0


def rounds(peers: Sequence[Peer], workloads: Sequence[Workload], number: int, folder: Path) -> Iterator[Row]:
    """Every measurement of so many rounds, as it comes."""
    for at in range(1, number + 1):
        for peer in peers:
            left_out = reasons(peer)
            for together in starts(workload for workload in workloads if workload.name not in left_out):
                place = folder / f"{at}-{peer.name}-{together[0].name}"
                place.mkdir()
                yield from _started(peer, together, at, place)
            if peer is ROUTER and any(workload.name.startswith("W9") for workload in workloads):
                yield from _rebuilds(at)


def _started(peer: Peer, together: Sequence[Workload], at: int, folder: Path) -> Iterator[Row]:
    """The workloads that share one start of the program. A failure is told in their rows."""
    left = list(together)
    fleet = left[0].fleet
    try:
        with engine(folder, cores()[1]) as port, _program(peer, fleet, port, folder) as running:
            time.sleep(SETTLE_S)
            idle_kib = memory_kib(family(running.pid)) if running.pid else 0
            if running.pid and not fleet:
                told = {"start_s": running.start_s, "idle_mib": round(idle_kib / 1024, 2)}
                yield Row(peer.name, START, at, told)
            rest = {"rest_ms_per_s": _at_rest(running)} if fleet else {}
            run(running, WARM, cores()[1], loose=peer.loose)
            while left:
                seen, moments = run(running, left[0], cores()[1], loose=peer.loose)
                found = {} if seen.errors else figures(left[0], seen, moments, idle_kib) | rest
                yield Row(peer.name, left.pop(0).name, at, found, seen.first_error)
    except (OSError, RuntimeError, ValueError) as error:
        told_error = " ".join(str(error).split())
        yield from (Row(peer.name, workload.name, at, {}, told_error) for workload in left)


@contextmanager
def _program(peer: Peer, fleet: Fleet | None, engine_port: int, folder: Path) -> Iterator[Running]:
    """The program before the engine, or over the daemons of a fleet; every model answers."""
    ours, others = cores()
    if fleet is None or peer.cluster is None:
        with peer.start(folder, engine_port, ours) as running:
            yield running
        return
    port = free_port()
    argv = [sys.executable, "-m", "bench.daemons", str(port), str(engine_port)]
    argv += [str(fleet.daemons), str(fleet.groups), *(["--churn"] if fleet.churn else [])]
    addresses = [f"{host(node)}:{port}" for node in range(fleet.daemons)]
    with process(argv, folder / "daemons.log", others):
        _until(lambda: _connects(host(fleet.daemons - 1), port), "the daemons do not answer")
        with peer.cluster(folder, addresses, fleet.models[0], ours) as running:
            _until(lambda: _listed(running) >= fleet.groups, "not every model of the cluster is listed")
            yield running


def _until(holds: Callable[[], bool], otherwise: str) -> None:
    """Raises RuntimeError after `START_S`."""
    end = time.monotonic() + START_S
    while not holds():
        if time.monotonic() > end:
            raise RuntimeError(otherwise)
        time.sleep(POLL_S)


def _connects(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=1).close()
    except OSError:
        return False
    return True


def _listed(running: Running) -> int:
    """How many models the program lists."""
    with closing(http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)) as connection:
        connection.request("GET", f"{running.prefix}/v1/models")
        return len(json.loads(connection.getresponse().read())["data"])


def _at_rest(running: Running) -> float:
    """Milliseconds of CPU for each second in which nobody asks."""
    pids = family(running.pid)
    before = moment(pids)
    time.sleep(REST_S)
    after = moment(pids)
    return round((after.cpu_ns - before.cpu_ns) / 1e6 / (after.at - before.at), 2)


def _rebuilds(at: int) -> Iterator[Row]:
    argv = ["taskset", "--cpu-list", cores()[0], sys.executable, "-m", "bench.rebuild"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=REBUILD_LIMIT_S)
    if done.returncode:
        yield Row(ROUTER.name, REBUILD, at, {}, done.stderr.strip()[-200:])
        return
    for groups, found in json.loads(done.stdout).items():
        yield Row(ROUTER.name, f"{REBUILD}-{groups}", at, found)
