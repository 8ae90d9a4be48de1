"""The merge: every daemon's newest view into one `Group` per name (manual "Discovery", wire.md section 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mentatd.cluster.addresses import node_addresses, rank_hosts
from mentatd.cluster.sources import AllowedSources, LocalNetworks, parse_address
from mentatd.wire.service import PortService, Service, base_url
from mentatd.wire.snapshot import Agent, GroupView, View


@dataclass(frozen=True, slots=True)
class SeenView:
    """A daemon's newest view and when it was read."""

    daemon: str
    """The watched HTTP address, `10.0.0.1:6380` or `[fd00::1]:6380`."""
    view: View
    at: float
    """Monotonic seconds."""
    trusted: bool = True
    """Learned from a seed or a signed announcement, directly or through peers of such a daemon: its endpoints
    may be sent the engines' key."""


@dataclass(frozen=True, slots=True)
class Group:
    """One model deployment as the router believes it to be."""

    name: str
    daemon: str
    """Whose view won."""
    trusted: bool
    """Of the view that won."""
    agents: tuple[Agent, ...]
    """The winning view's agents, dead ones too."""
    agents_alive: int
    actors_running: int
    actors: int
    """In any state."""
    gpus: int
    """Offered by living agents."""
    openai: Service | None
    """The announced endpoint: that of the lexically first living agent that announces one."""
    openai_agent: str
    """That agent's id; empty when none announces."""
    openai_note: str | None
    """That agent's bind finding."""
    provider: str
    """That agent's provider; empty when not said."""
    candidates: tuple[str, ...]
    """Base URLs to probe, best first. Empty: none announced, or no address passes ALLOWED_SOURCES."""
    trusted_candidates: frozenset[str]
    """Those of `candidates` that trusted views alone name too: they may be sent the engines' key."""
    mcp: Service | None
    """The status server's endpoint: that of the lexically first living agent that announces one."""
    mcp_candidates: tuple[str, ...]
    """Like `candidates`."""


def merge(
    views: Mapping[str, SeenView],
    *,
    now: float,
    stale_after: float,
    local: LocalNetworks,
    sources: AllowedSources,
) -> dict[str, Group]:
    """Merge the views that are not older than `stale_after` seconds into one entry per name, ordered by name.

    Two daemons disagree: more running actors wins, then more living agents, then the lower address.
    """
    fresh = sorted(
        (seen for seen in views.values() if now - seen.at <= stale_after),
        key=lambda seen: _address_order(seen.daemon),
    )
    winners = _winners(fresh)
    hosts = trusted = _Hosts(node_addresses(seen.view for seen in fresh), local, sources)
    if not all(seen.trusted for seen in fresh):
        # anybody's view may describe a node, so a trusted group's addresses need not be trusted ones
        trusted = _Hosts(node_addresses(seen.view for seen in fresh if seen.trusted), local, sources)
    return {name: _group(name, winners[name], hosts, trusted) for name in sorted(winners)}


_NAMES_LAST = 9
"""Above every IP version."""


def _address_order(daemon: str) -> tuple[int, int, int, str]:
    """Sorts literal addresses by number (IPv4 before IPv6) and then port; names come after, by text."""
    host, _, port = daemon.rpartition(":")
    address = parse_address(host.strip("[]"))
    if address is None or not port.isdecimal():
        return (_NAMES_LAST, 0, 0, daemon)
    return (address.version, int(address), int(port), daemon)


@dataclass(frozen=True, slots=True)
class _Winner:
    """The view of one group that wins."""

    seen: SeenView
    view: GroupView
    strength: tuple[int, int]
    """Actors running, agents alive."""


def _winners(fresh: Iterable[SeenView]) -> dict[str, _Winner]:
    """`fresh` is in the order that decides a tie."""
    winners: dict[str, _Winner] = {}
    for seen in fresh:
        for name, view in seen.view.groups.items():
            strength = _strength(view)
            best = winners.get(name)
            if best is None or strength > best.strength:
                winners[name] = _Winner(seen, view, strength)
    return winners


def _strength(view: GroupView) -> tuple[int, int]:
    running = alive = 0
    for actor in view.actors:
        if actor.state == "running":
            running += 1
    for agent in view.agents:
        if agent.alive:
            alive += 1
    return running, alive


class _Hosts:
    """The hosts to try for an agent, ranked once for each node in one merge."""

    def __init__(
        self, nodes: Mapping[str, tuple[str, ...]], local: LocalNetworks, sources: AllowedSources
    ) -> None:
        self._nodes = nodes
        self._local = local
        self._sources = sources
        self._ranked: dict[str, tuple[str, ...]] = {}

    def of(self, node_ip: str) -> tuple[str, ...]:
        """An agent whose node nobody describes falls back to its own `node_ip`."""
        ranked = self._ranked.get(node_ip)
        if ranked is None:
            address = parse_address(node_ip)
            addrs = () if address is None else self._nodes.get(str(address), (str(address),))
            ranked = rank_hosts(addrs, local=self._local, sources=self._sources)
            self._ranked[node_ip] = ranked
        return ranked


def _group(name: str, winner: _Winner, hosts: _Hosts, trusted: _Hosts) -> Group:
    view = winner.view
    running, alive = winner.strength
    openai_agent, openai = _announced(view, "openai")
    mcp_agent, mcp = _announced(view, "mcp")
    candidates = _candidates(openai_agent, openai, hosts)
    named = _candidates(openai_agent, openai, trusted) if winner.seen.trusted else ()
    return Group(
        name=name,
        daemon=winner.seen.daemon,
        trusted=winner.seen.trusted,
        agents=view.agents,
        agents_alive=alive,
        actors_running=running,
        actors=len(view.actors),
        gpus=sum(agent.gpus for agent in view.agents if agent.alive),
        openai=openai,
        openai_agent=openai_agent.id if openai_agent else "",
        openai_note=openai_agent.notes.get("openai") if openai_agent else None,
        provider=openai_agent.provider if openai_agent else "",
        candidates=candidates,
        trusted_candidates=frozenset(candidates).intersection(named),
        mcp=mcp,
        mcp_candidates=_candidates(mcp_agent, mcp, hosts),
    )


def _announced(view: GroupView, service: str) -> tuple[Agent, Service] | tuple[None, None]:
    """The first living agent that announces the service: a view has them ordered by id."""
    for agent in view.agents:
        if agent.alive and service in agent.services:
            return agent, agent.services[service]
    return None, None


def _candidates(agent: Agent | None, service: Service | None, hosts: _Hosts) -> tuple[str, ...]:
    """A URL is its own single candidate, used as written; a port has one for each host to try."""
    if agent is None or service is None:
        return ()
    if isinstance(service, PortService):
        return tuple(base_url(service, host) for host in hosts.of(agent.node_ip))
    return (service.url,)
