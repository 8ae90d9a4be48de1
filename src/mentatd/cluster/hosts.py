"""The hosts to try for an agent: those that its node answers on, ranked (wire.md section 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mentatd.cluster.addresses import node_addresses, rank_hosts
from mentatd.cluster.sources import AllowedSources, LocalNetworks, parse_address
from mentatd.wire.snapshot import Peer, View

_Said = tuple[tuple[str, tuple[str, ...], tuple[Peer, ...]], ...]


@dataclass(frozen=True, slots=True)
class Hosts:
    """What views say of nodes. Equal ones have the same hosts for every agent."""

    nodes: Mapping[str, tuple[str, ...]]
    """Every address that identifies a node, to those that it answers on."""
    local: LocalNetworks
    sources: AllowedSources
    said: _Said = field(repr=False, compare=False)
    """All of the views that `nodes` is made of."""
    _ranked: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False, default_factory=dict)
    """Filled as nodes are asked for: each is ranked once."""

    def now(self, views: Sequence[View], local: LocalNetworks, sources: AllowedSources) -> Hosts:
        """Of what these views say: this very object, if they say what it is made of."""
        said = tuple((view.node_ip, view.addrs, view.peers) for view in views)
        if (said, local, sources) == (self.said, self.local, self.sources):
            return self
        return Hosts(node_addresses(views), local, sources, said)

    def of(self, node_ip: str) -> tuple[str, ...]:
        """An agent whose node nobody describes falls back to its own `node_ip`."""
        ranked = self._ranked.get(node_ip)
        if ranked is None:
            address = parse_address(node_ip)
            addrs = () if address is None else self.nodes.get(str(address), (str(address),))
            ranked = rank_hosts(addrs, local=self.local, sources=self.sources)
            self._ranked[node_ip] = ranked
        return ranked


NOBODY = Hosts({}, LocalNetworks(frozenset()), AllowedSources(()), ())
"""No view says anything."""
