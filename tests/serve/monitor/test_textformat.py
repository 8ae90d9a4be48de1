"""Pages as Prometheus' own parsers read them, in both formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from mentatd.serve.monitor.textformat import (
    OPENMETRICS,
    TEXT,
    Family,
    content_type,
    counter,
    gauge,
    histogram,
    page,
)

READERS: Mapping[str, Callable[[str], Iterable[Metric]]] = {TEXT: read_text, OPENMETRICS: read_openmetrics}
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


def read(kind: str, *families: Family) -> list[Metric]:
    return list(READERS[kind](b"".join(page(families, kind)).decode()))


def values(metric: Metric) -> dict[tuple[str, ...], float]:
    return {(sample.name, *sample.labels.values()): sample.value for sample in metric.samples}


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", TEXT),
        ("application/openmetrics-text", OPENMETRICS),
        ("text/html, Application/OpenMetrics-Text; version=1.0.0; charset=utf-8", OPENMETRICS),
        ("application/openmetrics-text; version=none", TEXT),
        ("application/openmetrics-text; version=0.0.1", TEXT),
        ("application/openmetrics-textual", TEXT),
        (PROMETHEUS_3, OPENMETRICS),
    ],
)
def test_the_format_is_the_one_that_is_asked_for(accept: str, kind: str) -> None:
    assert content_type(accept) == kind


@pytest.mark.parametrize("kind", READERS)
def test_every_kind_of_family(kind: str) -> None:
    up = gauge("up", "It is up.", ("of",), [(("a",), 1), (("b",), 0.25)])
    seen = counter("seen", "How many.", (), [((), 7)])
    took = histogram("took_seconds", "How long.", ("of",), (0.1, 2.5, 30.0), [(("a",), (1, 0, 2, 4), 99.5)])
    late = histogram("late_seconds", "How late.", (), (1.0,), [((), (3, 0), 0.5)])
    metrics = read(kind, up, seen, took, late)
    assert [(metric.name, metric.type, metric.documentation) for metric in metrics] == [
        ("up", "gauge", "It is up."),
        ("seen", "counter", "How many."),
        ("took_seconds", "histogram", "How long."),
        ("late_seconds", "histogram", "How late."),
    ]
    assert [values(metric) for metric in metrics] == [
        {("up", "a"): 1, ("up", "b"): 0.25},
        {("seen_total",): 7},
        {
            ("took_seconds_bucket", "a", "0.1"): 1,
            ("took_seconds_bucket", "a", "2.5"): 1,
            ("took_seconds_bucket", "a", "30"): 3,
            ("took_seconds_bucket", "a", "+Inf"): 7,
            ("took_seconds_count", "a"): 7,
            ("took_seconds_sum", "a"): 99.5,
        },
        {
            ("late_seconds_bucket", "1"): 3,
            ("late_seconds_bucket", "+Inf"): 3,
            ("late_seconds_count",): 3,
            ("late_seconds_sum",): 0.5,
        },
    ]


@pytest.mark.parametrize("kind", READERS)
def test_a_family_without_samples_is_named(kind: str) -> None:
    (metric,) = read(kind, gauge("up", "It is up.", ("of",), []))
    assert (metric.name, metric.samples) == ("up", [])


@given(
    st.sampled_from(sorted(READERS)), st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True)
)
def test_any_text_is_a_label(kind: str, texts: Iterable[str]) -> None:
    told = list(texts)
    (metric,) = read(kind, gauge("x", "What is said.", ("of", "not"), [((text, "%s{}"), 1) for text in told]))
    assert [sample.labels for sample in metric.samples] == [{"of": text, "not": "%s{}"} for text in told]


def test_a_page_is_made_as_it_is_asked_for() -> None:
    made: list[str] = []

    def told() -> Iterable[tuple[tuple[str], int]]:
        for of in "ab":
            made.append(of)
            yield (of,), 1

    pieces = page([gauge("x", "It is.", ("of",), told())], TEXT)
    next(pieces), next(pieces)
    assert made == ["a"]
