"""What a run of the load generator saw, as it says it to whoever started it.

It prints one JSON line each time a phase begins, at which the other side reads what the program has used so far, and
a last one with the figures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

WORST = 1.0
"""The `part` of the greatest value."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The end of a run."""

    figures: Mapping[str, float] = field(default_factory=dict)
    """By name, which ends in the unit."""
    errors: int = 0
    """Wrong answers, broken connections."""
    first_error: str = ""


def percentile(values: Sequence[float], part: float) -> float:
    """The value that this part of all does not exceed; 0 where there are no values."""
    if not values:
        return 0.0
    return round(sorted(values)[min(len(values) - 1, int(len(values) * part))], 1)


def latencies(name: str, values_us: Sequence[float]) -> dict[str, float]:
    """The figures that tell of these times; none of no times."""
    if not values_us:
        return {}
    return {
        f"{name}_p50_us": percentile(values_us, 0.5),
        f"{name}_p99_us": percentile(values_us, 0.99),
        f"{name}_max_us": percentile(values_us, WORST),
    }


def mark(phase: str) -> None:
    """Say that a phase begins."""
    print(json.dumps(phase), flush=True)


def tell(seen: Seen) -> None:
    """Say the figures."""
    print(json.dumps(asdict(seen)), flush=True)


def heard(line: str) -> str | Seen:
    """A line of `mark` or of `tell`. Raises ValueError for anything else."""
    match json.loads(line):
        case str(phase):
            return phase
        case {"figures": dict(figures), "errors": int(errors), "first_error": str(first)}:
            return Seen(figures, errors, first)
    raise ValueError(f"not a word of the load generator: {line[:200]!r}")
