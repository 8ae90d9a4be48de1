"""Counters and memory of requests: outcomes, bounds, and what is not counted twice."""

from __future__ import annotations

import pytest
from tests.serve.monitor.rows import row

from mentatd.errors import Refusal
from mentatd.http.request import Head, Request
from mentatd.serve import refusals
from mentatd.serve.monitor.traffic import (
    BUCKETS,
    FINISHED_KEPT,
    LINES_KEPT,
    OTHER,
    PATH_LIMIT,
    REFUSED_KEPT,
    TEXT_LIMIT,
    UNKNOWN,
    WINDOW_KEPT,
    Distribution,
    Traffic,
    outcome_of,
)

ASKED = Request(Head("POST", b"/v1/chat/completions"), peer="192.168.1.9")


@pytest.mark.parametrize(
    ("status", "failure", "sent", "outcome"),
    [
        (200, None, True, "ok"),
        (304, None, True, "ok"),
        (422, None, True, "client_error"),
        (429, None, True, "client_error"),
        (500, None, True, "engine_error"),
        (503, None, True, "engine_error"),
        (499, "the client left", True, "client_left"),
        (499, "the client left", False, "client_left"),
        (502, "group glm: refused", False, "unreachable"),
        (502, "group glm: closed before an answer", True, "failed"),
        (504, "no complete answer", True, "timeout"),
        (200, "the engine closed early", True, "cut"),
    ],
)
def test_what_became_of_a_request(status: int, failure: str | None, sent: bool, outcome: str) -> None:
    ended = row(status=status, failure=failure)
    ended.sent = sent
    assert outcome_of(ended) == outcome


def test_a_request_that_ended_is_counted_once_everywhere() -> None:
    traffic = Traffic()
    traffic.finished(row(started=10.0, first=10.25, ended=13.0, out=500, status=200))
    traffic.finished(row("2", started=10.0, ended=10.5, status=502, failure="group glm: refused"))
    line = traffic.lines["glm-5", "glm"]
    assert line.outcomes == {"ok": 1, "unreachable": 1}
    assert (line.in_bytes, line.out_bytes) == (34, 500)
    assert (sum(line.ttfb.counts), line.ttfb.total) == (1, 0.25)
    assert (sum(line.duration.counts), line.duration.total) == (2, 3.5)
    assert line.window == [(10.25, 0.25)]
    assert [(r.id, r.status, outcome_of(r), r.failure) for r in traffic.last] == [
        ("1", 200, "ok", None),
        ("2", 502, "unreachable", "group glm: refused"),
    ]
    assert traffic.finished_total == 2


def test_what_is_kept_of_requests_is_bounded() -> None:
    traffic = Traffic()
    long = "x" * 70_000
    for n in range(LINES_KEPT + 50):
        traffic.finished(row(model=f"m{n}", first=1.0, ended=1.0, path=long, status=200, failure=long))
    assert len(traffic.last) == FINISHED_KEPT
    assert len(traffic.last[0].path) == PATH_LIMIT
    assert traffic.last[0].failure == long[:TEXT_LIMIT]
    assert len(traffic.lines) == LINES_KEPT + 1
    assert traffic.lines[OTHER, OTHER].outcomes == {"cut": 50}
    for _ in range(WINDOW_KEPT + 5):
        traffic.finished(row(first=1.0, ended=1.0, status=200))
    assert all(len(line.window) <= WINDOW_KEPT for line in traffic.lines.values())


def test_refusals_are_counted_by_model_group_and_code() -> None:
    traffic = Traffic(wall_clock=lambda: 1_800_000_000.0)
    traffic.refused(refusals.model_not_found("gpt-4", ["glm-5"], {}), ASKED, True)
    traffic.refused(refusals.model_not_found("gpt-5", ["glm-5"], {}), ASKED, True)
    traffic.refused(refusals.model_not_ready("glm-5", {"glm": "no running actors"}), ASKED, True)
    traffic.refused(refusals.model_not_ready("shared", {"a": "x", "b": "y"}), ASKED, True)
    traffic.refused(Refusal(431, "invalid_request_error", "headers_too_large", "too large"), None, False)
    assert traffic.refusals == {
        (UNKNOWN, "", "model_not_found"): 2,
        ("glm-5", "glm", "model_not_ready"): 1,
        ("shared", "", "model_not_ready"): 1,
        ("", "", "headers_too_large"): 1,
    }
    first, last = traffic.last_refused[0], traffic.last_refused[-1]
    assert (first.id, first.at, first.status, first.outcome) == (
        "r1",
        1_800_000_000.0,
        404,
        "model_not_found",
    )
    assert "gpt-4" in first.failure
    assert (first.client, first.path, first.model) == ("192.168.1.9", "/v1/chat/completions", UNKNOWN)
    assert (last.client, last.path, last.model) == ("", "", "")


def test_a_forwarded_request_that_failed_has_its_row_already() -> None:
    traffic = Traffic()
    failed = refusals.engine_failed("glm", "http://10.0.0.1:8000/v1", "closed")
    traffic.refused(failed, ASKED, True)
    assert traffic.refusals == {}
    traffic.refused(failed, ASKED, False)  # asked by the router itself, for a token count
    assert traffic.refusals == {("", "glm", "engine_failed"): 1}


def test_what_is_kept_of_refusals_is_bounded() -> None:
    traffic = Traffic()
    for n in range(LINES_KEPT + 20):
        traffic.refused(refusals.model_not_ready(f"m{n}", {f"g{n}": "y" * 9000}), ASKED, True)
    assert len(traffic.refusals) == LINES_KEPT + 1
    assert traffic.refusals[OTHER, OTHER, "model_not_ready"] == 20
    assert len(traffic.last_refused) == REFUSED_KEPT
    assert len(traffic.last_refused[0].failure) == TEXT_LIMIT
    assert traffic.refused_total == LINES_KEPT + 20


def test_a_distribution_counts_at_the_bound_and_above_all() -> None:
    seen = Distribution()
    for seconds in (0.0, BUCKETS[0], BUCKETS[0] * 1.01, BUCKETS[-1] + 1):
        seen.add(seconds)
    assert seen.counts[:2] == [2, 1]
    assert seen.counts[-1] == 1
    assert seen.total == pytest.approx(BUCKETS[0] * 2.01 + BUCKETS[-1] + 1)
