"""The announcement datagram of both generations: written, signed, verified and judged (wire.md section 2).

The receiver's decision is `judge`, which takes steps 1 to 3 of wire.md in their order and changes nothing.
The caller takes steps 4 and 5 (source address, choice of the address to watch) and calls `ReplayWindow.accept`
only for an announcement that passed them, so that a copy that came over a forbidden link does not use its
`seq` up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mentatd.wire.version import Generation


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a daemon says about itself. A hint: every claim is read again over TCP before it is acted on."""

    generation: Generation
    node_id: str
    http_host: str
    """Never acted on, only shown; without brackets."""
    http_port: int
    """1 to 65535."""
    control: str = ""
    """Control address, `10.0.0.1:6379`."""
    universe: str = "default"
    addrs: tuple[str, ...] = ()
    """Addresses of the node, most preferred first; empty where what came was no list."""
    addr_tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Operator's tags for an address, such as `rdma`."""
    boot_id: str = ""
    """Changes with the daemon's process; empty in an unsigned one."""
    seq: int = 0
    t: int = 0
    """Unix seconds at the sender."""
    signed: bool = False
    """Its signature was verified."""


DropReason = Literal[
    "malformed", "other_universe", "rejected", "unverifiable", "unsupported", "stale", "replayed"
]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A datagram that is not acted on."""

    reason: DropReason
    detail: str = ""
    """What was wrong, with the path of the field."""
    event: str | None = None
    """The log event to write once per source and event; None: say nothing."""


class ReplayWindow:
    """The last accepted `seq` of each `node_id` and `boot_id`; the oldest is forgotten past the limit."""

    def __init__(self, limit: int = 1024) -> None:
        raise NotImplementedError

    def is_replay(self, announcement: Announcement) -> bool:
        """Whether its `seq` is not above the last accepted one. An unsigned announcement never is."""
        raise NotImplementedError

    def accept(self, announcement: Announcement) -> None:
        """Remember the `seq` of an announcement that passed every step; an unsigned one changes nothing."""
        raise NotImplementedError


def judge(
    datagram: bytes, *, key: bytes | None, universe: str, now_unix: float, replay: ReplayWindow
) -> Announcement | Dropped:
    """Steps 1 to 3 of wire.md section 2, in that order. Any bytes at all give a value; nothing is raised.

    `key` is the shared secret, or None; `now_unix` the receiver's clock in seconds.
    """
    raise NotImplementedError


def write_announcement(announcement: Announcement, key: bytes | None) -> bytes:
    """The datagram: generation A unsigned (1) without `key` and signed (2) with it, generation B signed.

    At most 1400 bytes: tags go first, from the last address up, then addresses from the last up.
    Raises ValueError for generation B without a key, and when the rest alone is too long.
    """
    raise NotImplementedError


def canonical(payload: Mapping[str, Any]) -> bytes:
    """Canonical JSON: keys sorted at every depth, no white space, non-ASCII as raw UTF-8.

    Raises ValueError for what has no canonical form (NaN, infinities, lone surrogates).
    """
    raise NotImplementedError


def sign(payload: Mapping[str, Any], key: bytes) -> str:
    """HMAC-SHA256 over the canonical payload, in hex. Raises ValueError like `canonical`."""
    raise NotImplementedError
