"""What an agent concludes from where its server listens (wire.md section 5).

A finding explains a failed probe, it never causes one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

SILENT_AFTER_S = 600.0
"""Nothing has listened for this long since the start: worth one line. A large model loads for minutes."""

_WILDCARDS = frozenset({"0.0.0.0", "::"})


@dataclass(frozen=True, slots=True)
class Watched:
    """What is known of one announced port so far."""

    note: str = ""
    """The note in force, such as `bound to 10.0.0.1 only`; empty when there is nothing to say."""
    heard: bool = False
    """Something has listened on it at least once."""
    warned: bool = False
    """That nothing listens has been said."""


@dataclass(frozen=True, slots=True)
class Narrow:
    """The server listens, but not on every address: the daemon gets this note."""

    note: str


@dataclass(frozen=True, slots=True)
class Widened:
    """The server now listens on every address: the note is cleared."""


@dataclass(frozen=True, slots=True)
class NeverListened:
    """Nothing has listened since the start, which is long ago."""


Finding = Narrow | Widened | NeverListened


def look(watched: Watched, addresses: Sequence[str], waited_s: float) -> tuple[Watched, Finding | None]:
    """One look at where a port is bound, `waited_s` seconds after the start; a finding only when it is new.

    A server that stopped listening leaves the note as it stands: it is what was seen last.
    """
    if not addresses:
        if watched.heard or watched.warned or waited_s < SILENT_AFTER_S:
            return watched, None
        return replace(watched, warned=True), NeverListened()
    if not _WILDCARDS.isdisjoint(addresses):
        finding = Widened() if watched.note else None
        return replace(watched, heard=True, note=""), finding
    note = f"bound to {','.join(addresses)} only"
    return replace(watched, heard=True, note=note), None if note == watched.note else Narrow(note)
