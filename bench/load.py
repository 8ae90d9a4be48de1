"""The load generator: `python -m bench.load PORT WORKLOAD [OPTION…]`, a process of its own; see `bench.seen`.

Every answer is held to what the engine sends; a wrong one is an error of the run.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace

import uvloop

from bench.caller import READ, Answer, Caller
from bench.clients import GRACE_S, Run
from bench.questions import Question, Target, question
from bench.seen import Seen, latencies, mark, tell
from bench.workloads import GUARDED, IDLE_S, WARM, WORKLOADS, Kind, Workload

PAGES = ("/metrics", "/status.json")
PAGES_EACH_S = 1.0
AFTER_S = 0.2
"""For what a large body has held back: it is on its way still when that is answered."""
SLOW_BUFFER = 65_536
"""The kernel's receive buffer of a client that does not read."""
SLOW_READ = 4 << 20
"""What that client reads in the end, to see that nothing is lost or mixed up."""


def many(workload: Workload, target: Target) -> Seen:
    """W1 to W4, W8, W9."""
    return uvloop.run(_many(workload, target))


async def _many(workload: Workload, target: Target) -> Seen:
    questions = [question(workload, target, model) for model in workload.models]
    run = Run(target.port, questions, seconds=workload.seconds, requests=workload.requests)
    start = time.monotonic()
    reading = _read_pages(run, target.port) if workload.fleet and workload.fleet.churn else None
    pages = asyncio.get_running_loop().create_task(reading) if reading else None
    await run.work(workload.connections, workload.seconds + GRACE_S)
    if pages:
        pages.cancel()
    figures: dict[str, float] = {
        "requests": run.done,
        "chunks": run.chunks,
        "per_s": round((run.chunks if workload.chunks else run.done) / (time.monotonic() - start), 1),
        **latencies("request", run.request_us),
        **latencies("chunk", run.chunk_us),
    }
    return Seen(figures, run.errors, run.first_error)


async def _read_pages(run: Run, port: int) -> None:
    """Read the program's own pages until cancelled."""
    while True:
        for path in PAGES:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET %b HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n" % path.encode())
                page = await reader.read(-1)
                writer.close()
            except OSError as error:
                run.fail(f"{path}: {error}")
                return
            # 404: the published router has no /metrics
            if not page.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 404 ")):
                run.fail(f"{path}: {page[:100]!r}")
        await asyncio.sleep(PAGES_EACH_S)


def single(workload: Workload, target: Target) -> Seen:
    """W0."""
    with Caller(target.port) as caller:
        times, faults = _ask_for(caller, question(workload, target, workload.models[0]), workload)
    figures = {"requests": float(len(times)), **latencies("request", times)}
    return Seen(figures, len(faults), next(iter(faults), ""))


def _ask_for(caller: Caller, asked: Question, workload: Workload) -> tuple[list[float], list[str]]:
    """One request after the other: their times, and what was wrong with answers."""
    times: list[float] = []
    faults: list[str] = []
    end = time.monotonic() + workload.seconds
    while time.monotonic() < end and len(times) < workload.requests:
        took, fault = caller.ask(asked)
        times.append(took)
        if fault:
            faults.append(fault)
    return times, faults


def idle(workload: Workload, target: Target) -> Seen:
    """W6: connections that have had one answer each and rest then."""
    asked = question(workload, target, workload.models[0])
    with ExitStack() as stack:
        callers = [stack.enter_context(Caller(target.port)) for _ in range(workload.connections)]
        faults = [fault for caller in callers if (fault := caller.ask(asked)[1])]
        mark("rest")
        time.sleep(IDLE_S)
        mark("rested")
        kept = sum(caller.open for caller in callers)
        with Caller(target.port) as caller:
            times, more = _ask_for(caller, asked, workload)
    faults += more
    if kept < len(callers):
        faults.append(
            f"{len(callers) - kept} of {len(callers)} idle connections were closed within {IDLE_S:g} s"
        )
    return Seen(latencies("request", times), len(faults), next(iter(faults), ""))


def slow(workload: Workload, target: Target) -> Seen:
    """W7: a client that asks for a fast stream and does not read it, others beside it."""
    streamed = question(workload, target, workload.models[0])
    small = question(replace(workload, chunks=0), target, workload.models[0])
    with Caller(target.port, receive_bytes=SLOW_BUFFER) as lazy, Caller(target.port) as caller:
        sock, answer = lazy.send(streamed), Answer()
        times, faults = _ask_for(caller, small, workload)
        mark("unread")
        while answer.length < SLOW_READ:
            answer.feed(sock.recv(READ))
    if fault := streamed.fault_of_start(answer.status, answer.body):
        faults.append(fault)
    return Seen(latencies("request", times), len(faults), next(iter(faults), ""))


def large(workload: Workload, target: Target) -> Seen:
    """W5: one large body beside paced streams; how late their chunks were meanwhile."""
    return uvloop.run(_large(workload, target))


async def _large(workload: Workload, target: Target) -> Seen:
    model = workload.models[0]
    paced = question(replace(workload, body_bytes=1024), target, model)
    body = question(replace(workload, chunks=0), target, model)
    run = Run(target.port, [paced], seconds=workload.seconds + GRACE_S, requests=workload.requests)
    loop = asyncio.get_running_loop()
    streams = loop.create_task(run.work(workload.connections, workload.seconds + 2 * GRACE_S))
    await asyncio.sleep(workload.seconds)
    before = len(run.chunk_us)
    mark("large")
    with Caller(target.port) as caller:
        try:
            took, fault = await loop.run_in_executor(None, caller.ask, body)
        except OSError as error:
            took, fault = 0.0, f"the large body: {error!r}"
    mark("answered")
    if fault:
        run.fail(fault)
    await asyncio.sleep(AFTER_S)
    run.ends = time.monotonic_ns()
    await streams
    figures = {"large_ms": round(took / 1e3, 1), **latencies("quiet", run.chunk_us[:before])}
    return Seen(figures | latencies("chunk", run.chunk_us[before:]), run.errors, run.first_error)


KINDS: Mapping[Kind, Callable[[Workload, Target], Seen]] = {
    "single": single,
    "loop": many,
    "large": large,
    "idle": idle,
    "slow": slow,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.load")
    parser.add_argument("port", type=int)
    parser.add_argument("workload")
    parser.add_argument("--prefix", default="")
    parser.add_argument("--loose", action="store_true")
    chosen = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    workload = (WORKLOADS | GUARDED | {WARM.name: WARM})[chosen.workload]
    target = Target(chosen.port, chosen.prefix, chosen.loose)
    gc.freeze()
    gc.set_threshold(100_000)
    try:
        tell(KINDS[workload.kind](workload, target))
    except OSError as error:
        tell(Seen(errors=1, first_error=repr(error)))


if __name__ == "__main__":
    main()
