"""Prometheus' text format 0.0.4 and OpenMetrics 1.0, as far as the router uses them. Pure.

A page of some thousand lines is made piece by piece, so that whoever writes it can let others go on between two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
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
    pieces: Iterable[bytes]
    """Its samples in lines of UTF-8, those of one set of labels at a time; made as they are asked for, once."""


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


def page(families: Iterable[Family], content_type: str) -> Iterator[bytes]:
    """The page in pieces; joined, it is complete."""
    for family in families:
        # only OpenMetrics names a counter without its suffix
        plain = family.kind == "counter" and content_type == TEXT
        name = f"{family.name}_total" if plain else family.name
        yield f"# HELP {name} {family.told}\n# TYPE {name} {family.kind}\n".encode()
        yield from family.pieces
    if content_type == OPENMETRICS:
        yield b"# EOF\n"


def _plain(name: str, labels: Labels, values: Iterable[tuple[Labels, float]]) -> Iterator[bytes]:
    inner = _inner(labels)
    line = f"{name}{{{inner}}} %s\n" if inner else f"{name} %s\n"
    for of, value in values:
        yield (line % (*map(_escaped, of), value)).encode()


def _histograms(
    name: str, labels: Labels, bounds: Sequence[float], values: Iterable[tuple[Labels, Sequence[int], float]]
) -> Iterator[bytes]:
    upper = (*(f"{bound:g}" for bound in bounds), "+Inf")
    buckets = "".join(f'{name}_bucket{{{_BEFORE}le="{bound}"}} %d\n' for bound in upper)
    lines = f"{buckets}{name}_count{_ALONE} %d\n{name}_sum{_ALONE} %s\n"
    inner = _inner(labels)
    for of, counts, total in values:
        yield _histogram(lines, inner % (*map(_escaped, of),), tuple(counts), total)


_BEFORE, _ALONE = "\0", "\1"
"""Where a histogram's labels stand, with a label behind them and without."""


@lru_cache(maxsize=2048)
def _histogram(lines: str, inner: str, counts: tuple[int, ...], total: float) -> bytes:
    """Most are those of the last scrape. All that are kept take 3 MB."""
    inner = inner.replace("%", "%%")
    before, alone = (f"{inner},", f"{{{inner}}}") if inner else ("", "")
    numbers = (*accumulate(counts),)
    filled = lines.replace(_BEFORE, before).replace(_ALONE, alone) % (*numbers, numbers[-1], total)
    return filled.encode()


def _inner(labels: Labels) -> str:
    """What stands between the braces, to be filled with the labels' values."""
    return ",".join(f'{label}="%s"' for label in labels)


def _escaped(text: str) -> str:
    if "\\" in text or "\n" in text or '"' in text:
        return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return text
