"""Prometheus' text format 0.0.4 and OpenMetrics 1.0, as far as the router uses them. Pure.

A page of some thousand lines is made piece by piece, so that whoever writes it can let others go on between two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

Labels = Sequence[str]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with all its samples."""

    name: str
    """Of a counter without `_total`."""
    kind: Literal["gauge", "counter", "histogram"]
    told: str
    """What it tells: a line without quotes and backslashes."""
    pieces: Iterable[str]
    """Its samples in lines, those of one set of labels at a time; made as they are asked for, once."""


def gauge(name: str, told: str, labels: Labels, values: Iterable[tuple[Labels, float]]) -> Family:
    """`labels`: names; `values`: the labels' values and the figure, for each sample."""
    return Family(name, "gauge", told, _plain(name, labels, values))


def counter(name: str, told: str, labels: Labels, values: Iterable[tuple[Labels, float]]) -> Family:
    """Like `gauge`."""
    return Family(name, "counter", told, _plain(f"{name}_total", labels, values))


def histogram(
    name: str,
    told: str,
    labels: Labels,
    bounds: Sequence[float],
    values: Iterable[tuple[Labels, Sequence[int], float]],
) -> Family:
    """`values`: the labels' values, how many fell into each bucket (not accumulated; one more than there are upper
    `bounds`), and the sum of all, for each histogram."""
    return Family(name, "histogram", told, _histograms(name, labels, bounds, values))


def content_type(accept: str) -> str:
    """The format to answer a request with this `Accept` field in: one of the two constants."""
    for offer in accept.lower().split(","):
        media_type, *parameters = (part.strip() for part in offer.split(";"))
        versions = [part for part in parameters if part.startswith("version=")]
        if media_type == "application/openmetrics-text" and versions in ([], ["version=1.0.0"]):
            return OPENMETRICS
    return TEXT


def page(families: Iterable[Family], content_type: str) -> Iterator[str]:
    """The page in pieces; joined, it is complete."""
    for family in families:
        # only OpenMetrics names a counter without its suffix
        plain = family.kind == "counter" and content_type == TEXT
        name = f"{family.name}_total" if plain else family.name
        yield f"# HELP {name} {family.told}\n# TYPE {name} {family.kind}\n"
        yield from family.pieces
    if content_type == OPENMETRICS:
        yield "# EOF\n"


def _plain(name: str, labels: Labels, values: Iterable[tuple[Labels, float]]) -> Iterator[str]:
    for of, value in values:
        inner = _inner(labels, of)
        yield f"{name}{{{inner}}} {value}\n" if inner else f"{name} {value}\n"


def _histograms(
    name: str, labels: Labels, bounds: Sequence[float], values: Iterable[tuple[Labels, Sequence[int], float]]
) -> Iterator[str]:
    upper = (*(f"{bound:g}" for bound in bounds), "+Inf")
    buckets = "".join(f'{name}_bucket{{%sle="{bound}"}} %d\n' for bound in upper)
    whole = f"{buckets}{name}_count%s %d\n{name}_sum%s %s\n"
    for of, counts, total in values:
        inner = _inner(labels, of)
        before, alone = (f"{inner},", f"{{{inner}}}") if inner else ("", "")
        filled: list[str | float] = []
        for number in accumulate(counts):
            filled += (before, number)
        yield whole % (*filled, alone, sum(counts), alone, total)


def _inner(labels: Labels, values: Labels) -> str:
    """What stands between the braces."""
    return ",".join([f'{label}="{_escaped(value)}"' for label, value in zip(labels, values, strict=True)])


def _escaped(text: str) -> str:
    if "\\" in text or "\n" in text or '"' in text:
        return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return text
