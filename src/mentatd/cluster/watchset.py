"""Which daemons to watch: claims from seeds, announcements and mesh peers in, one watch a node out.

A claim says that a daemon answers at an address and which node it is; the first view read there settles the
latter. A node is worth one watch, but a dead address must not hide a live one: only a watch that works ends
the others of its node, and a fresh one that has not been tried holds back only further untried ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from mentatd.cluster.addresses import peer_address
from mentatd.cluster.sources import AllowedSources, LocalNetworks
from mentatd.wire.snapshot import View

Source = Literal["seed", "announcement", "peer"]

_RANK: Mapping[Source, int] = {"seed": 0, "announcement": 1, "peer": 2}


@dataclass(frozen=True, slots=True)
class Claim:
    """One reason to watch an address."""

    address: str
    """Of the daemon's HTTP port, as `authority` writes it."""
    node_id: str
    """Who is said to answer there; empty where nobody said."""
    source: Source
    trusted: bool
    """By a seed or a signed announcement, or a peer of a trusted daemon."""
    near: bool
    """The address is on one of this box's own subnets."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is known of an address from watching it."""

    node_id: str
    """As its last view said; empty before the first."""
    state: Literal["untried", "working", "failing", "ended"]
    """`ended`: not watched now, but it was, and its node is remembered."""


@dataclass(frozen=True, slots=True)
class WatchSet:
    """What to watch from now on."""

    claims: tuple[Claim, ...]
    """One for each address: the best reason for it, trusted if any reason is."""
    left_out: int
    """Claims that found no place."""


def authority(host: str, port: int) -> str:
    """`10.0.0.1:6380`, `[fd00::1]:6380`: how a watched address is written everywhere."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def peer_claims(
    view: View, *, trusted: bool, local: LocalNetworks, sources: AllowedSources, limit: int
) -> tuple[Claim, ...]:
    """The mesh peers of a daemon that can be followed: alive, with an HTTP port and an allowed address.

    At most `limit` of them. `trusted` is the reporting daemon's own standing, which its peers share.
    """
    claims = (
        Claim(authority(host, peer.http_port), peer.node_id, "peer", trusted, host in local)
        for peer in view.peers
        if peer.alive and peer.http_port and (host := peer_address(peer, local=local, sources=sources))
    )
    return tuple(islice(claims, limit))


def choose(claims: Iterable[Claim], findings: Mapping[str, Finding], *, bound: int) -> WatchSet:
    """The set to watch: every seed, and of the rest one address a node while it works, at most `bound`.

    A trusted address of a node is not given up for an untrusted one. Where places are short, what works comes
    first, then what is trusted, then what is watched already, so that a flood of new claims ends no watch.
    """
    best: dict[str, Claim] = {}
    for claim in claims:
        held = best.get(claim.address)
        best[claim.address] = claim if held is None else _join(held, claim)
    seeds = [claim for claim in best.values() if claim.source == "seed"]
    others = [claim for claim in best.values() if claim.source != "seed"]
    others.sort(key=lambda claim: _order(claim, findings.get(claim.address, _NEW)))
    chosen: list[Claim] = []
    left_out = 0
    served: set[tuple[str, bool]] = set()
    begun: set[tuple[str, bool]] = set()
    for claim in (*seeds, *others):
        finding = findings.get(claim.address, _NEW)
        node, standing = finding.node_id or claim.node_id, claim.trusted
        if claim.source != "seed":
            held_back = served if finding.state == "failing" else served | begun
            if (node, standing) in held_back or (node, True) in held_back:
                continue
            if len(chosen) >= bound:
                left_out += 1
                continue
        chosen.append(claim)
        if node and finding.state == "working":
            served.add((node, standing))
        elif node and finding.state != "failing":
            begun.add((node, standing))
    return WatchSet(tuple(chosen), left_out)


_NEW = Finding("", "ended")


def _join(held: Claim, other: Claim) -> Claim:
    first, second = (other, held) if _RANK[other.source] < _RANK[held.source] else (held, other)
    node_id, trusted = first.node_id or second.node_id, first.trusted or second.trusted
    if (node_id, trusted) == (first.node_id, first.trusted):
        return first
    return replace(first, node_id=node_id, trusted=trusted)


def _order(claim: Claim, finding: Finding) -> tuple[bool, bool, bool, int, bool]:
    return (
        finding.state != "working",
        not claim.trusted,
        finding.state == "ended",
        _RANK[claim.source],
        not claim.near,
    )
