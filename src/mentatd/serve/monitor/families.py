"""The families of `/metrics`, as docs/metrics.md lists them."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from mentatd import __version__
from mentatd.cluster.routes import verdict
from mentatd.serve.monitor import lag
from mentatd.serve.monitor.process import Process
from mentatd.serve.monitor.state import State
from mentatd.serve.monitor.textformat import Family, counter, gauge, histogram
from mentatd.serve.monitor.traffic import BUCKETS

PREFIX = "mentat_serve_"


def families(state: State) -> Iterator[Family]:
    """Every family of the router's own."""
    yield from _about_the_router(state)
    yield from _about_requests(state)
    yield from _about_groups(state)
    yield from _about_daemons(state)


def process_families(process: Process) -> Iterator[Family]:
    """Under the names that Prometheus' own client libraries have for them."""
    gauges = {
        "virtual_memory_bytes": ("Virtual memory.", process.virtual_bytes),
        "resident_memory_bytes": ("Resident memory.", process.resident_bytes),
        "start_time_seconds": ("When the process started, Unix time.", process.started),
        "open_fds": ("Open file descriptors.", process.open_fds),
        "max_fds": ("File descriptors that may be open.", process.max_fds),
    }
    for name, (told, value) in gauges.items():
        yield gauge(f"process_{name}", told, (), [((), value)])
    yield counter("process_cpu_seconds", "CPU time, user and system.", (), [((), process.cpu_s)])


def _about_the_router(state: State) -> Iterator[Family]:
    version = (__version__, platform.python_version())
    yield gauge(
        f"{PREFIX}build_info", "The version that runs; always 1.", ("version", "python"), [(version, 1)]
    )
    yield gauge(
        f"{PREFIX}start_time_seconds", "When the router started, Unix time.", (), [((), state.started)]
    )
    yield gauge(
        f"{PREFIX}connections",
        "Open connections: of clients, and to engines and daemons.",
        ("side",),
        (((side,), number) for side, number in state.connections.items()),
    )
    yield histogram(
        f"{PREFIX}event_loop_lag_seconds",
        "How late the event loop was, sampled ten times a second.",
        (),
        lag.BUCKETS,
        [((), state.lag.counts, state.lag.total)],
    )


def _about_requests(state: State) -> Iterator[Family]:
    by, lines = ("model", "group"), state.lines
    ended = [((*key, outcome), number) for key, line in lines for outcome, number in line.outcomes.items()]
    yield counter(
        f"{PREFIX}requests",
        "Requests that ended, by what became of them.",
        (*by, "outcome"),
        [*ended, *state.refusals.items()],
    )
    yield counter(
        f"{PREFIX}request_bytes",
        "Bytes of the bodies of requests.",
        by,
        ((key, line.in_bytes) for key, line in lines),
    )
    yield counter(
        f"{PREFIX}response_bytes",
        "Bytes of the bodies of answers that were passed on.",
        by,
        ((key, line.out_bytes) for key, line in lines),
    )
    yield histogram(
        f"{PREFIX}ttfb_seconds",
        "Time to the first byte of the answer's body.",
        by,
        BUCKETS,
        ((key, line.ttfb.counts, line.ttfb.total) for key, line in lines),
    )
    yield histogram(
        f"{PREFIX}request_duration_seconds",
        "Time from the routed request to its end.",
        by,
        BUCKETS,
        ((key, line.duration.counts, line.duration.total) for key, line in lines),
    )
    yield gauge(f"{PREFIX}requests_in_flight", "Requests that are carried now.", by, state.in_flight.items())


def _about_groups(state: State) -> Iterator[Family]:
    groups, by = state.table.groups, ("group",)
    yield gauge(
        f"{PREFIX}group_admitted",
        "1 while the group can serve, else 0.",
        by,
        (((name,), int(verdict(group, now=state.at) is None)) for name, group in groups.items()),
    )
    probes = [((name,), state.probes_of(name)) for name in groups]
    rounds = (
        ((*key, result), number)
        for key, of in probes
        for result, number in (("ok", of.ok), ("failed", of.failed))
    )
    yield counter(f"{PREFIX}probes", "Rounds of probing a group.", (*by, "result"), rounds)
    yield histogram(
        f"{PREFIX}probe_duration_seconds",
        "How long a round of probing took.",
        by,
        BUCKETS,
        ((key, of.duration.counts, of.duration.total) for key, of in probes),
    )


def _about_daemons(state: State) -> Iterator[Family]:
    yield gauge(
        f"{PREFIX}daemon_up",
        "1 if the daemon's last poll succeeded.",
        ("daemon",),
        (((daemon.address,), int(daemon.up)) for daemon in state.daemons),
    )
    yield gauge(
        f"{PREFIX}daemon_age_seconds",
        "Since the daemon was last read.",
        ("daemon",),
        (((daemon.address,), daemon.age_s) for daemon in state.daemons if daemon.age_s is not None),
    )
    yield counter(
        f"{PREFIX}announcements",
        "Datagrams on the announcement port.",
        ("result",),
        (((result,), number) for result, number in state.announcements.items()),
    )
