"""`/metrics`: every family as documented, true to what is counted, and no cost while nobody scrapes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families
from tests.serve.monitor.recorder import Recorder
from tests.serve.monitor.rows import Published, row, table
from tests.serve.monitor.test_series import FakeInflight
from tests.serve.monitor.test_timeline import Followed
from tests.support.deadlines import until

from mentatd import __version__
from mentatd.http.connection import Connection
from mentatd.http.request import Head, Request
from mentatd.serve import refusals
from mentatd.serve.answering import Answering
from mentatd.serve.daemon import Daemon
from mentatd.serve.inflight import Inflight
from mentatd.serve.monitor import exposition as module
from mentatd.serve.monitor.exposition import Exposition
from mentatd.serve.monitor.families import families
from mentatd.serve.monitor.lag import BUCKETS, Lag
from mentatd.serve.monitor.state import Sources, State, take
from mentatd.serve.monitor.textformat import OPENMETRICS, TEXT, page
from mentatd.serve.monitor.traffic import Traffic

DOCS = Path(__file__).parents[3] / "docs"


def daemon(address: str, *, connected: bool = True, read_at: float | None = 7.0) -> Daemon:
    claim = SimpleNamespace(address=address)
    return cast("Daemon", SimpleNamespace(claim=claim, connected=connected, read_at=read_at))


def sources() -> Sources:
    """One of everything."""
    traffic, followed, inflight = Traffic(), Followed(), FakeInflight()
    traffic.finished(row(started=0.0, first=0.2, ended=3.0, out=500, status=200))
    traffic.finished(row(started=0.0, ended=4.0, status=504, failure="no complete answer"))
    asked = Request(Head("POST", b"/v1/chat/completions"))
    traffic.refused(refusals.model_not_found("gpt-4", [], {}), asked, True)
    inflight.carried = [row("3"), row("4")]
    published = Published(table({"glm": ["glm-5"]}, failing=["qwen"]))
    followed.cluster.table = published.table
    for state in published.table.groups.values():
        assert state.probe is not None
        followed.cluster.probed(state.group.name, state.probe)
    lag = Lag()
    lag.seen.add(0.03, BUCKETS)
    return Sources(
        published,
        cast("Inflight", inflight),
        traffic,
        followed.timeline,
        lag,
        daemons=lambda: [daemon("10.0.0.1:6380"), daemon("10.0.0.2:6380", connected=False, read_at=None)],
        announcements=lambda: {"accepted": 5, "rejected": 2},
        connections=lambda: {"client": 9, "engine": 3},
        started=1_800_000_000.0,
    )


def state() -> State:
    return take(sources(), 10.0)


def rendered(state: State) -> str:
    return b"".join(page(families(state), TEXT)).decode()


def parsed(state: State) -> list[Metric]:
    return list(text_string_to_metric_families(rendered(state)))


def samples(text: str) -> Mapping[str, float]:
    """Each sample, written `name{label=value,…}`, without buckets."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sample.labels.items())
            found[f"{sample.name}{{{labels}}}".removesuffix("{}")] = sample.value
    return found


def test_what_a_scrape_tells() -> None:
    found = samples(rendered(state()))
    build = f"mentat_serve_build_info{{python={sys.version.split()[0]},version={__version__}}}"
    glm = "group=glm,model=glm-5"
    expected = {
        build: 1,
        "mentat_serve_start_time_seconds": 1_800_000_000.0,
        f"mentat_serve_requests_total{{{glm},outcome=ok}}": 1,
        f"mentat_serve_requests_total{{{glm},outcome=timeout}}": 1,
        "mentat_serve_requests_total{group=,model=(unknown),outcome=model_not_found}": 1,
        f"mentat_serve_ttfb_seconds_count{{{glm}}}": 1,
        f"mentat_serve_ttfb_seconds_sum{{{glm}}}": 0.2,
        f"mentat_serve_ttfb_seconds_bucket{{{glm},le=0.1}}": 0,
        f"mentat_serve_ttfb_seconds_bucket{{{glm},le=0.25}}": 1,
        f"mentat_serve_ttfb_seconds_bucket{{{glm},le=+Inf}}": 1,
        f"mentat_serve_request_duration_seconds_count{{{glm}}}": 2,
        f"mentat_serve_request_duration_seconds_sum{{{glm}}}": 7.0,
        f"mentat_serve_request_bytes_total{{{glm}}}": 34,
        f"mentat_serve_response_bytes_total{{{glm}}}": 500,
        f"mentat_serve_requests_in_flight{{{glm}}}": 2,
        "mentat_serve_group_admitted{group=glm}": 1,
        "mentat_serve_group_admitted{group=qwen}": 0,
        "mentat_serve_probes_total{group=glm,result=ok}": 1,
        "mentat_serve_probes_total{group=glm,result=failed}": 0,
        "mentat_serve_probes_total{group=qwen,result=failed}": 1,
        "mentat_serve_probe_duration_seconds_count{group=qwen}": 1,
        "mentat_serve_daemon_up{daemon=10.0.0.1:6380}": 1,
        "mentat_serve_daemon_up{daemon=10.0.0.2:6380}": 0,
        "mentat_serve_daemon_age_seconds{daemon=10.0.0.1:6380}": 3.0,
        "mentat_serve_announcements_total{result=accepted}": 5,
        "mentat_serve_announcements_total{result=rejected}": 2,
        "mentat_serve_connections{side=client}": 9,
        "mentat_serve_connections{side=engine}": 3,
        "mentat_serve_event_loop_lag_seconds_bucket{le=0.025}": 0,
        "mentat_serve_event_loop_lag_seconds_bucket{le=0.05}": 1,
        "mentat_serve_event_loop_lag_seconds_sum": 0.03,
    }
    plain = {_sorted(name): value for name, value in found.items()}
    assert {name: plain.get(_sorted(name)) for name in expected} == expected
    assert not any("10.0.0.2" in name and "age" in name for name in found)


def _sorted(name: str) -> str:
    metric, _, labels = name.rstrip("}").partition("{")
    return f"{metric}{sorted(labels.split(','))}"


def test_the_page_documents_every_family() -> None:
    rows = re.findall(
        r"^\| `(mentat_serve_\w+)` \| (\w+) \|([^|]*)\|", (DOCS / "metrics.md").read_text(), re.MULTILINE
    )
    documented = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    exposed = {}
    for family in parsed(state()):
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        exposed[name] = (family.type, labels)
    assert documented == exposed


@pytest.mark.parametrize("name", ["alerts.yml", "grafana/mentat-serve.json"])
def test_the_examples_use_only_families_that_exist(name: str) -> None:
    known = {sample.name for family in parsed(state()) for sample in family.samples}
    used = set(re.findall(r"mentat_serve_\w+", (DOCS / name).read_text()))
    assert used
    assert used <= known, used - known


def test_the_dashboard_shows_every_family() -> None:
    text = (DOCS / "grafana" / "mentat-serve.json").read_text()
    assert json.loads(text)["panels"]
    assert [f.name for f in families(state()) if f.name not in text] == []


@pytest.mark.parametrize(
    ("accept", "expected"),
    [(b"application/openmetrics-text; version=1.0.0", OPENMETRICS), (b"text/html", TEXT)],
)
async def test_a_scrape(accept: bytes, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECES_A_TURN", 7)
    answering, connection = Answering(), Recorder()
    exposition = Exposition(sources(), answering, clock=lambda: 10.0)
    request = Request(Head("GET", b"/metrics", b"Accept: %b\r\n" % accept))
    exposition.handle(request, cast("Connection", connection))
    await until(lambda: connection.answered)
    assert connection.answered is not None
    status, body, content_type = connection.answered
    assert (status, content_type.decode()) == (200, expected)
    read = openmetrics_families if expected == OPENMETRICS else text_string_to_metric_families
    found = {family.name: family.samples for family in read(body.decode())}
    assert {f"mentat_serve_{name}" for name in ("requests", "probe_duration_seconds")} <= set(found)
    assert found["process_cpu_seconds"][0].value > 0
    await answering.close()


async def test_a_system_that_does_not_tell_of_the_process_leaves_that_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "read_process", lambda: None)
    answering, connection = Answering(), Recorder()
    Exposition(sources(), answering).handle(Request(Head("GET", b"/metrics")), cast("Connection", connection))
    await until(lambda: connection.answered)
    assert connection.answered is not None
    assert b"process_" not in connection.answered[1]
    await answering.close()


def test_hostile_names_are_labels_like_any() -> None:
    name, traffic = '<img src=x>"\\\n', Traffic()
    traffic.finished(row(model=name, group="ü😀", status=200))
    known = parsed(take(replace(sources(), traffic=traffic), 10.0))
    (family,) = (family for family in known if family.name == "mentat_serve_requests")
    assert [(s.labels["model"], s.labels["group"]) for s in family.samples] == [(name, "ü😀")]
