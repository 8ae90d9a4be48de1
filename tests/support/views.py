"""Short ways to write what daemons report and what probes find."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_network

from mentatd.cluster.admission import Attempt, Probe
from mentatd.cluster.groups import Group, SeenView, merge
from mentatd.cluster.sources import AllowedSources, LocalNetworks
from mentatd.wire.openai import ModelEntry
from mentatd.wire.service import PortService, Service
from mentatd.wire.snapshot import Actor, ActorState, Agent, GroupView, Peer, View

LOCAL = LocalNetworks(frozenset({ip_network("192.168.1.0/24"), ip_network("fd00:1::/64")}))
SOURCES = AllowedSources(("10.", "192.168.1.", "127.", "::1", "fd00:"))
V1 = PortService(8000, "/v1")


def agent(
    id_: str = "glm@c0@10.0.0.1",
    *,
    node_ip: str | None = None,
    alive: bool = True,
    gpus: int = 1,
    provider: str = "",
    openai: Service | None = V1,
    mcp: Service | None = None,
    note: str = "",
) -> Agent:
    """An agent that announces `openai` on port 8000, on the node that its id ends in."""
    services = {"openai": openai, "mcp": mcp}
    return Agent(
        id=id_,
        node_ip=id_.rpartition("@")[2] if node_ip is None else node_ip,
        node_id="",
        container="c0",
        alive=alive,
        degraded=False,
        gpus=gpus,
        provider=provider,
        services={name: service for name, service in services.items() if service is not None},
        notes={"openai": note} if note else {},
    )


def group_view(*agents: Agent, running: int = 1, others: Iterable[ActorState] = ()) -> GroupView:
    """A deployment with `running` running actors and further ones in the given states."""
    states: list[ActorState] = ["running" for _ in range(running)]
    states.extend(others)
    actors = (
        Actor(f"a{number}", f"w{number}", node_id="", state=state, reason="")
        for number, state in enumerate(states)
    )
    return GroupView(tuple(sorted(agents, key=lambda agent: agent.id)), tuple(actors))


def peer(node_ip: str, *addrs: str, link_ip: str = "", http_port: int = 6380, alive: bool = True) -> Peer:
    return Peer(
        f"id-{node_ip}",
        node_ip=node_ip,
        link_ip=link_ip,
        addrs=addrs,
        http_port=http_port,
        alive=alive,
        stale=False,
    )


def view(
    node_ip: str = "10.0.0.1",
    *addrs: str,
    groups: Mapping[str, GroupView] | None = None,
    peers: Iterable[Peer] = (),
) -> View:
    return View("A", f"id-{node_ip}", node_ip, "", addrs, tuple(peers), groups or {})


def seen(view: View, daemon: str = "10.0.0.1:6380", *, at: float = 0.0, trusted: bool = True) -> SeenView:
    return SeenView(daemon, view, at, trusted)


def merged(*views: SeenView, now: float = 0.0, sources: AllowedSources = SOURCES) -> Mapping[str, Group]:
    """`merge` at `now` with views that last 30 s."""
    by_daemon = {seen.daemon: seen for seen in views}
    return merge(by_daemon, now=now, stale_after=30.0, local=LOCAL, sources=sources).groups


def group(name: str = "glm", *agents: Agent, running: int = 1, others: Iterable[ActorState] = ()) -> Group:
    """The one group of one daemon; without agents, one that announces `openai`."""
    offered = group_view(*(agents or (agent(),)), running=running, others=others)
    return merged(seen(view(groups={name: offered})))[name]


def probe(group: Group, *models: str, at: float = 0.0, url: str | None = None) -> Probe:
    """A round that `url` answered, or else the group's first candidate, with these models."""
    url = url or group.candidates[0]
    entries = tuple(ModelEntry(model, f'{{"id":"{model}"}}'.encode()) for model in models)
    return Probe(at, url, (Attempt(url, None, 0.01, at),), entries, group.candidates)


def failed_probe(group: Group, *errors: str, at: float = 0.0) -> Probe:
    """A round that failed, with one error for each candidate."""
    tried = zip(group.candidates, errors, strict=True)
    return Probe(at, None, tuple(Attempt(url, error, 0.01, at) for url, error in tried), (), group.candidates)
