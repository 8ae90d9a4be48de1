"""The merge: every daemon's newest view into one `Group` per name (manual "Discovery", wire.md section 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from mentatd.cluster.hosts import NOBODY, Hosts
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


@dataclass(frozen=True, slots=True)
class Merged:
    """Every fresh view as one, and what the next merge can use of it."""

    groups: Mapping[str, Group]
    """Ordered by name."""
    daemons: frozenset[str]
    """Whose views are in it."""
    winners: Mapping[str, _Winner]
    """By group name."""
    hosts: Hosts
    """By what all these views say of nodes."""
    trusted_hosts: Hosts
    """By what the trusted ones say: `hosts` itself where all are."""


class _Winner(NamedTuple):
    """The view of one group that wins, and its daemon."""

    daemon: str
    trusted: bool
    view: GroupView


NOTHING = Merged({}, frozenset(), {}, NOBODY, NOBODY)
"""Before the first view."""


def merge(
    views: Mapping[str, SeenView],
    before: Merged = NOTHING,
    *,
    now: float,
    stale_after: float,
    local: LocalNetworks,
    sources: AllowedSources,
) -> Merged:
    """Merge the views that are not older than `stale_after` seconds into one entry per name.

    Two daemons disagree: more running actors wins, then more living agents, then the lower address.
    `before` changes no group: one that is equal there is the same object, and most are not even made again.
    """
    fresh = sorted(
        (seen for seen in views.values() if now - seen.at <= stale_after),
        key=lambda seen: _address_order(seen.daemon),
    )
    hosts = trusted = before.hosts.now([seen.view for seen in fresh], local, sources)
    if not all(seen.trusted for seen in fresh):
        # anybody's view may describe a node, so a trusted group's addresses need not be trusted ones
        known = [seen.view for seen in fresh if seen.trusted]
        trusted = before.trusted_hosts.now(known, local, sources)
    kept = before if (hosts, trusted) == (before.hosts, before.trusted_hosts) else NOTHING
    winners = _winners(fresh)
    groups = {}
    for name in sorted(winners):
        winner, old = winners[name], before.groups.get(name)
        if old is None or kept.winners.get(name) != winner:
            new = _group(name, winner, hosts, trusted)
            old = old if old == new else new
        groups[name] = old
    return Merged(groups, frozenset(seen.daemon for seen in fresh), winners, hosts, trusted)


_NAMES_LAST = 9
"""Above every IP version."""


@lru_cache(maxsize=1024)
def _address_order(daemon: str) -> tuple[int, int, int, str]:
    """Sorts literal addresses by number (IPv4 before IPv6) and then port; names come after, by text."""
    host, _, port = daemon.rpartition(":")
    address = parse_address(host.strip("[]"))
    if address is None or not port.isdecimal():
        return (_NAMES_LAST, 0, 0, daemon)
    return (address.version, int(address), int(port), daemon)


def _winners(fresh: Iterable[SeenView]) -> dict[str, _Winner]:
    """`fresh` is in the order that decides a tie."""
    winners: dict[str, _Winner] = {}
    for seen in fresh:
        for name, view in seen.view.groups.items():
            best = winners.get(name)
            if best is None or _is_stronger(view, best.view):
                winners[name] = _Winner(seen.daemon, seen.trusted, view)
    return winners


def _is_stronger(view: GroupView, other: GroupView) -> bool:
    if view.actors_running != other.actors_running:
        return view.actors_running > other.actors_running
    return view.agents_alive > other.agents_alive


def _group(name: str, winner: _Winner, hosts: Hosts, trusted: Hosts) -> Group:
    view = winner.view
    openai_agent, openai = _announced(view, "openai")
    mcp_agent, mcp = _announced(view, "mcp")
    candidates = _candidates(openai_agent, openai, hosts)
    named: Iterable[str] = ()
    if winner.trusted:
        named = candidates if trusted is hosts else _candidates(openai_agent, openai, trusted)
    return Group(
        name=name,
        daemon=winner.daemon,
        trusted=winner.trusted,
        agents=view.agents,
        agents_alive=view.agents_alive,
        actors_running=view.actors_running,
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


def _candidates(agent: Agent | None, service: Service | None, hosts: Hosts) -> tuple[str, ...]:
    """A URL is its own single candidate, used as written; a port has one for each host to try."""
    if agent is None or service is None:
        return ()
    if isinstance(service, PortService):
        return tuple(base_url(service, host) for host in hosts.of(agent.node_ip))
    return (service.url,)
