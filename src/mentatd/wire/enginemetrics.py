"""An engine's `/metrics` page to one set of figures a model (wire.md section 6).  Pure.

The page is Prometheus' text format 0.0.4. It is read piece by piece, so that megabytes of it need not hold the
event loop: a piece costs in proportion to its size, and only lines with a wanted name are taken apart. How each kind
of engine spells a figure stands in `mentatd.wire.dialects`; a page speaks the first dialect that it has any
sample of, whatever provider its container announced.

The samples of one model are added up over all their other labels (`engine`, `dp_rank`); shares are averaged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from mentatd.wire.dialects import DIALECTS, Dialect, Mean
from mentatd.wire.openai import ModelEntry

LINE_LIMIT = 16 * 1024
"""Bytes of one line; a longer one is skipped. A wanted line has a few hundred."""
SERIES_LIMIT = 4096
"""Wanted samples of one page that are kept; further ones are skipped. An engine of 64 replicas has 1024."""
MODELS_LIMIT = 256
"""Models of one page that are kept; samples of further ones are skipped."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What an engine says of one model; None: it does not say, or says NaN or infinity."""

    running: float | None = None
    """Requests that it works on."""
    waiting: float | None = None
    """Requests that it has queued."""
    kv: float | None = None
    """Share of the KV cache in use, 0 to 1."""
    prompt_tokens: float | None = None
    """Prompt tokens since it started."""
    generation_tokens: float | None = None
    """Generated tokens since it started."""
    preemptions: float | None = None
    """Requests that it took from the batch again, since it started."""
    ttft_s: float | None = None
    """Mean time to the first token since it started, seconds."""
    queue_s: float | None = None
    """Mean time in its queue since it started, seconds."""
    itl_s: float | None = None
    """Mean time between two tokens since it started, seconds."""
    finished: Mapping[str, float | None] | None = None
    """Requests that it finished since it started, by its own word for the reason."""


NOTHING = Figures()
"""Of an engine that says nothing of the model."""


_WANTED = {name.encode(): (name, dialect) for dialect in DIALECTS for name in dialect.names()}
_LINE = re.compile(
    # the look-ahead at its start lets most lines go at once
    rb"\n(?=[%b])(%b)(?=[{ \t])([^\n]{0,%d})(?=\n|\Z)"
    % (
        bytes({name[0] for name in _WANTED}),
        b"|".join(map(re.escape, sorted(_WANTED))),
        LINE_LIMIT,
    )
)
_EXACT = 2.0**53
"""Below it a float holds every whole number."""

_LABEL = re.compile(rb'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]++|\\.)*+)"[ \t]*(,|(?=}))')
_VALUE = re.compile(rb"[ \t]*([^ \t\r_]+)(?=[ \t\r]|\Z)")
_ESCAPE = re.compile(r"\\(.)")

_Labels = tuple[tuple[str, str], ...]
_Series = dict[_Labels, float]


@dataclass(slots=True)
class MetricsReader:
    """Reads one page: `feed` what came of it, in any cuts, then `end` once."""

    _rest: bytes = b"\n"
    """The last line break and what came behind it; without the break, it is the middle of a line that is skipped."""
    _room: int = SERIES_LIMIT
    _models: set[str] = field(default_factory=set)
    _samples: dict[str, dict[str, _Series]] = field(default_factory=dict)
    """Metric name to model name (empty where a sample has none) to what was sampled."""

    def feed(self, piece: bytes) -> None:
        """Take the next piece. What is no sample, or none that is wanted, is skipped."""
        data = self._rest + piece
        end = data.rfind(b"\n")
        for match in _LINE.finditer(data, 0, max(end, 0)):
            self._take(*_WANTED[match[1]], match[2])
        rest = data[end:] if end >= 0 else data
        self._rest = rest if len(rest) <= LINE_LIMIT else b""

    def end(self) -> dict[str, Figures]:
        """The figures of each model, by the name under which the page has it (empty where it names none)."""
        self.feed(b"\n")
        for dialect in DIALECTS:
            samples = {name: self._samples[name] for name in dialect.names() if name in self._samples}
            if samples:
                models = {model for by_model in samples.values() for model in by_model}
                return {model: _figures(dialect, samples, model) for model in models}
        return {}

    def _take(self, name: str, dialect: Dialect, sample: bytes) -> None:
        labels, end = _read_labels(sample)
        value = _read_value(sample, end)
        if labels is None or value is None or any(labels.get(label) for label in dialect.parts):
            return
        model = labels.pop("model_name", "")
        if model not in self._models:
            if len(self._models) == MODELS_LIMIT:
                return
            self._models.add(model)
        key = tuple(sorted(item for item in labels.items() if item[0] not in dialect.mirrored))
        series = self._samples.setdefault(name, {}).setdefault(model, {})
        if key in series:
            series[key] = max(series[key], value)
        elif self._room:
            self._room -= 1
            series[key] = value


def _read_labels(sample: bytes) -> tuple[dict[str, str] | None, int]:
    """The labels at the start of a sample, and where they end; None where they are broken."""
    labels: dict[str, str] = {}
    if not sample.startswith(b"{"):
        return labels, 0
    at = 1
    while sample[at : at + 1] != b"}":
        match = _LABEL.match(sample, at)
        if match is None:
            return None, at
        labels[match[1].decode()] = _unescape(match[2].decode(errors="replace"))
        at = match.end()
    return labels, at + 1


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], text)


def _read_value(line: bytes, at: int) -> float | None:
    match = _VALUE.match(line, at)
    try:
        return None if match is None else float(match[1])
    except ValueError:
        return None


def _figures(dialect: Dialect, samples: Mapping[str, Mapping[str, _Series]], model: str) -> Figures:
    """What one model's samples come to."""

    def series(name: str) -> _Series:
        return samples.get(name, {}).get(model, {})

    def first(names: Iterable[str]) -> _Series:
        return next(filter(None, map(series, names)), {})

    def mean(means: Iterable[Mean]) -> float | None:
        pairs = ((series(mean.total), sum(series(mean.count).values())) for mean in means)
        sums = ((sum(total.values()), count) for total, count in pairs if total)
        return next((_finite(total / count) for total, count in sums if count > 0), None)

    kv = first(dialect.kv)
    return Figures(
        **{column: _count(first(names)) for column, names in dialect.counts.items()},
        **{column: mean(means) for column, means in dialect.means.items()},
        kv=_finite(sum(kv.values()) / len(kv)) if kv else None,
        finished=_by_reason(series(dialect.finished)),
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _count(series: _Series) -> float | None:
    total = _finite(sum(series.values())) if series else None
    return int(total) if total is not None and total.is_integer() and abs(total) < _EXACT else total


def _by_reason(series: _Series) -> dict[str, float | None] | None:
    by_reason: dict[str, _Series] = {}
    for labels, value in series.items():
        by_reason.setdefault(dict(labels).get("finished_reason", ""), {})[labels] = value
    return {reason: _count(part) for reason, part in by_reason.items()} or None


class _Root(msgspec.Struct):
    root: object = None


_decode_root = msgspec.json.Decoder(_Root).decode


def assign(page: Mapping[str, Figures], listed: Sequence[ModelEntry]) -> dict[str, Figures]:
    """The figures of each model that an engine lists, from those that its page has by name.

    A model that the page does not name is an alias if it has the `root` of one that it does name (vLLM lists aliases
    so), or else if the page names only one and no `root` speaks against it.
    """
    roots = {entry.id: root for entry in listed if isinstance(root := _decode_root(entry.json).root, str)}
    by_root = {root: page[name] for name, root in roots.items() if name in page}
    only = next(iter(page)) if len(page) == 1 else None
    found: dict[str, Figures] = {}
    for entry in listed:
        root = roots.get(entry.id)
        if entry.id in page:
            found[entry.id] = page[entry.id]
        elif root in by_root:
            found[entry.id] = by_root[root]
        elif only is not None and (root is None or only not in roots):
            found[entry.id] = page[only]
    return found
