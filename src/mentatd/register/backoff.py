"""How long to wait before the next dial."""

from __future__ import annotations

FIRST_S = 0.5
"""Before the first redial: a daemon that restarts is back within a second."""
CAP_S = 10.0
"""The longest wait: an agent is back at most this long after its daemon."""


def wait_s(failures: int, chance: float) -> float:
    """Seconds to wait after this many failures in a row (1 or more), doubling up to the cap.

    `chance` in [0, 1) takes up to half of it away, so that a box full of agents does not dial in step.
    """
    longest: float = min(CAP_S, FIRST_S * 2 ** min(failures - 1, 16))
    return longest * (1 - chance / 2)
