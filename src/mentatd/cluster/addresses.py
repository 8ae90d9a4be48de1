"""Which address to use where a node has several (wire.md sections 2.5 and 3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from mentatd.cluster.sources import AllowedSources, LocalNetworks, parse_address
from mentatd.wire.snapshot import Peer, View

OTHERS = 3
"""Further addresses of an announcing node that are kept; links of one node are few."""


@dataclass(frozen=True, slots=True)
class WatchAddress:
    """The address to watch an announcing daemon on."""

    host: str
    """Literal, without brackets."""
    advertised: bool
    """It is one of the announcement's `addrs`; False: the address that the datagram came from."""
    others: tuple[str, ...] = ()
    """Where to watch it instead while `host` does not answer, best first."""


def announced_address(
    addrs: Iterable[str], source: str, *, local: LocalNetworks, sources: AllowedSources
) -> WatchAddress:
    """The first of `addrs` that is allowed and on one of this box's own subnets, or else `source`, which the
    caller has found allowed (wire.md section 2, step 5). What else would do is kept for when that link is cut."""
    own = [host for host in _allowed(addrs, local, sources) if host in local]
    first, *others = islice(dict.fromkeys((*own, _text(source) or source)), 1 + OTHERS)
    return WatchAddress(first, advertised=bool(own), others=tuple(others))


def peer_address(peer: Peer, *, local: LocalNetworks, sources: AllowedSources) -> str | None:
    """The address to follow a mesh peer on: the first of `link_ip`, `addrs`, `node_ip` that is on one of this
    box's own subnets, or else the first (wire.md section 3).

    Addresses outside ALLOWED_SOURCES are passed over; None when nothing is left.
    """
    hosts = _allowed((peer.link_ip, *peer.addrs, peer.node_ip), local, sources)
    return next((host for host in hosts if host in local), hosts[0] if hosts else None)


def rank_hosts(addrs: Iterable[str], *, local: LocalNetworks, sources: AllowedSources) -> tuple[str, ...]:
    """The hosts to try for a port-form service: those on this box's own subnets first, the node's own order
    inside each half, each once, hosts outside ALLOWED_SOURCES left out (wire.md section 3)."""
    hosts = _allowed(addrs, local, sources)
    own = [host for host in hosts if host in local]
    return (*own, *(host for host in hosts if host not in own))


def node_addresses(views: Iterable[View]) -> dict[str, tuple[str, ...]]:
    """Every address that identifies a node in any of `views`, to the addresses which that node answers on.

    Where descriptions of one address differ, the longest list wins (wire.md section 3); among equally long
    ones the node's own, whose order is the one to keep, and then the lower: the order of `views` is nothing.
    """
    best: dict[str, tuple[int, bool, tuple[str, ...]]] = {}
    texts: dict[str, str | None] = {}

    def describe(identity: tuple[str, ...], addrs: tuple[str, ...], *, by_peer: bool) -> None:
        known = _texts((*identity, *addrs), texts)
        answers = _texts(addrs, texts) or _texts(identity[:1], texts)
        rank = (-len(answers), by_peer, answers)
        for address in known:
            if address not in best or rank < best[address]:
                best[address] = rank

    for view in views:
        describe((view.node_ip,), view.addrs, by_peer=False)
        for peer in view.peers:
            describe((peer.node_ip, peer.link_ip), peer.addrs, by_peer=True)
    return {address: answers for address, (_, _, answers) in best.items()}


def _text(host: str) -> str | None:
    address = parse_address(host)
    return None if address is None else str(address)


def _texts(hosts: Iterable[str], known: dict[str, str | None]) -> tuple[str, ...]:
    """The canonical text of each literal address, once, in order; `known` saves parsing one twice."""
    texts: dict[str, None] = {}
    for host in hosts:
        if host not in known:
            known[host] = _text(host)
        text = known[host]
        if text is not None:
            texts[text] = None
    return tuple(texts)


def _allowed(hosts: Iterable[str], local: LocalNetworks, sources: AllowedSources) -> tuple[str, ...]:
    return tuple(host for host in _texts(hosts, {}) if sources.allows(host, local))
