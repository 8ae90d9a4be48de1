"""How long an idle upstream connection may be used again.

A request that crosses the engine's close of an idle connection is lost and must not be repeated, so a
connection is given up well before the engine does: by what the engine announces (`Keep-Alive: timeout=5,
max=100`), or else before the 5 s that are usual (uvicorn, Node), and sooner where an engine was seen to close
sooner.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

UNANNOUNCED_S: Final = 4.0
"""Where the engine says nothing: a second less than uvicorn's and Node's 5 s."""
LONGEST_S: Final = 60.0
"""However long the engine would wait: an idle connection is not worth keeping longer."""
MARGIN_S: Final = 1.0
"""Given up this long before the engine's own limit, or at half of it where that is less."""
SHORTEST_S: Final = 0.1
"""An engine that closes sooner than twice this after an answer is one whose connections are not used
again."""
NO_LIMIT: Final = float("inf")

_PARAMETER: Final = re.compile(
    rb"(?:^|,)[ \t]*(timeout|max)[ \t]*=[ \t]*\"?([0-9]{1,9})\"?[ \t]*(?=,|$)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """What an engine's `Keep-Alive` field says (RFC 2068 section 19.7.1.1, kept by practice)."""

    timeout: float | None
    """Seconds after which it closes an idle connection; None when not said."""
    max: int | None
    """Requests that the connection still serves (Apache), or serves in all (llama.cpp); None when not
    said."""


NOTHING_SAID: Final = KeepAlive(None, None)


@lru_cache(maxsize=256)
def read_keep_alive(field: bytes) -> KeepAlive:
    """Read the field's value; parameters that make no sense are as if not said."""
    said = {name.lower(): int(value) for name, value in _PARAMETER.findall(field)}
    timeout = said.get(b"timeout")
    return KeepAlive(timeout=None if timeout is None else float(timeout), max=said.get(b"max"))


def window(said: KeepAlive, *, served: int, learned: float = NO_LIMIT) -> float:
    """Seconds for which a connection that has just served its `served`-th request may wait for the next; 0:
    none.

    Comparing `max` with what was served is right for both readings of it, and early for Apache's.
    `learned` is what `learn` made of connections of this origin that were found closed.
    """
    if said.max is not None and served >= said.max:
        return 0.0
    if said.timeout is None:
        announced = UNANNOUNCED_S
    else:
        announced = min(max(said.timeout - MARGIN_S, said.timeout / 2), LONGEST_S)
    return min(announced, learned)


def learn(idle: float) -> float:
    """The new limit for an origin that closed a connection after `idle` seconds without a request, which is sooner
    than was expected of it: half of that, or 0 below `SHORTEST_S`."""
    half = idle / 2
    return half if half >= SHORTEST_S else 0.0
