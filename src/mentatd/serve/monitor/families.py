"""The families of `/metrics`, as docs/metrics.md lists them, and their text.

The one module that imports prometheus-client, which takes a tenth of a second: the first scrape does it, in a thread.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from mentatd import __version__
from mentatd.serve.monitor import lag
from mentatd.serve.monitor.state import Durations, State
from mentatd.serve.monitor.traffic import BUCKETS

PREFIX = "mentat_serve_"


class _Collector:
    """Hands a snapshot to a registry."""

    def __init__(self, state: State) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        return families(self._state)


def render(state: State, accept: str = "") -> tuple[bytes, str]:
    """The page and its content type, in the format that `accept` asks for."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(state))
    ProcessCollector(registry=registry)
    try:
        encoder, content_type = choose_encoder(accept)
    except (ValueError, TypeError):  # it names a version that is no number
        encoder, content_type = choose_encoder("")
    return encoder(registry), content_type


def families(state: State) -> Iterator[Metric]:
    """Every family of the router's own."""
    yield from _about_the_process(state)
    yield from _about_requests(state)
    yield from _about_the_cluster(state)


def _about_the_process(state: State) -> Iterator[Metric]:
    build = GaugeMetricFamily(
        f"{PREFIX}build_info", "The version that runs; always 1.", labels=("version", "python")
    )
    build.add_metric((__version__, platform.python_version()), 1)
    yield build
    yield GaugeMetricFamily(
        f"{PREFIX}start_time_seconds", "When the router started, Unix time.", value=state.started
    )
    connections = GaugeMetricFamily(
        f"{PREFIX}connections", "Open connections: of clients, and to engines and daemons.", labels=("side",)
    )
    for side, number in state.connections.items():
        connections.add_metric((side,), number)
    yield connections
    late = _histogram(
        "event_loop_lag_seconds", "How late the event loop was, sampled ten times a second.", ()
    )
    _add(late, (), state.lag, lag.BUCKETS)
    yield late


def _about_requests(state: State) -> Iterator[Metric]:
    by = ("model", "group")
    requests = CounterMetricFamily(
        f"{PREFIX}requests", "Requests that ended, by what became of them.", labels=(*by, "outcome")
    )
    taken = CounterMetricFamily(f"{PREFIX}request_bytes", "Bytes of the bodies of requests.", labels=by)
    given = CounterMetricFamily(
        f"{PREFIX}response_bytes", "Bytes of the bodies of answers that were passed on.", labels=by
    )
    ttfb = _histogram("ttfb_seconds", "Time to the first byte of the answer's body.", by)
    duration = _histogram("request_duration_seconds", "Time from the routed request to its end.", by)
    for line in state.lines:
        key = (line.model, line.group)
        for outcome, number in line.outcomes.items():
            requests.add_metric((*key, outcome), number)
        taken.add_metric(key, line.in_bytes)
        given.add_metric(key, line.out_bytes)
        _add(ttfb, key, line.ttfb)
        _add(duration, key, line.duration)
    for labels, number in state.refusals.items():
        requests.add_metric(labels, number)
    in_flight = GaugeMetricFamily(f"{PREFIX}requests_in_flight", "Requests that are carried now.", labels=by)
    for key, number in state.in_flight.items():
        in_flight.add_metric(key, number)
    yield from (requests, taken, given, ttfb, duration, in_flight)


def _about_the_cluster(state: State) -> Iterator[Metric]:
    admitted = GaugeMetricFamily(
        f"{PREFIX}group_admitted", "1 while the group can serve, else 0.", labels=("group",)
    )
    probes = CounterMetricFamily(f"{PREFIX}probes", "Rounds of probing a group.", labels=("group", "result"))
    probing = _histogram("probe_duration_seconds", "How long a round of probing took.", ("group",))
    for group in state.groups:
        admitted.add_metric((group.name,), float(group.admitted))
        probes.add_metric((group.name, "ok"), group.probes_ok)
        probes.add_metric((group.name, "failed"), group.probes_failed)
        _add(probing, (group.name,), group.probe_duration)
    up = GaugeMetricFamily(f"{PREFIX}daemon_up", "1 if the daemon's last poll succeeded.", labels=("daemon",))
    age = GaugeMetricFamily(
        f"{PREFIX}daemon_age_seconds", "Since the daemon was last read.", labels=("daemon",)
    )
    for daemon in state.daemons:
        up.add_metric((daemon.address,), float(daemon.up))
        if daemon.age_s is not None:
            age.add_metric((daemon.address,), daemon.age_s)
    announcements = CounterMetricFamily(
        f"{PREFIX}announcements", "Datagrams on the announcement port.", labels=("result",)
    )
    for result, number in state.announcements.items():
        announcements.add_metric((result,), number)
    yield from (admitted, probes, probing, up, age, announcements)


def _histogram(name: str, documentation: str, labels: tuple[str, ...]) -> HistogramMetricFamily:

    return HistogramMetricFamily(f"{PREFIX}{name}", documentation, labels=labels)


def _add(
    family: HistogramMetricFamily,
    labels: tuple[str, ...],
    seen: Durations,
    bounds: tuple[float, ...] = BUCKETS,
) -> None:
    names = (*(f"{bound:g}" for bound in bounds), "+Inf")
    family.add_metric(labels, list(zip(names, accumulate(seen.counts), strict=True)), seen.total)
