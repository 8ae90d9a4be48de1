"""The router's documents: what routes now, and why the rest does not (wire.md section 6)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes

import msgspec

from mentatd import __version__
from mentatd.cluster.admission import Probe
from mentatd.cluster.routes import (
    GroupState,
    NotAdmitted,
    Route,
    RouteTable,
    Unknown,
    listing,
    lookup,
    verdict,
)
from mentatd.errors import Refusal
from mentatd.serve import refusals
from mentatd.serve.daemon import Daemon
from mentatd.wire.openai import render_listing
from mentatd.wire.snapshot import Agent

_encode = msgspec.json.Encoder().encode


class Published(Protocol):
    """Who has the newest table."""

    table: RouteTable


class Documents:
    """What the router answers in JSON, always as of now."""

    def __init__(
        self,
        cluster: Published,
        daemons: Callable[[], Iterable[Daemon]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._daemons = daemons
        self._clock = clock
        self._started = clock()
        self._written: dict[str, _Written] = {}

    def models(self) -> bytes:
        """`/v1/models`: each model that routes, as its engine listed it."""
        return render_listing(listing(self._cluster.table, now=self._clock()))

    def model(self, path: str) -> bytes | Refusal:
        """`/v1/models/{id}`: one entry of the listing. `path` is the id as it stands in the request's path."""
        table, now = self._cluster.table, self._clock()
        whole = _decoded(path)
        entries = {entry.id: entry.json for entry in listing(table, now=now)}
        name = whole if whole in entries else whole.removesuffix("/")
        if name in entries:
            return entries[name]
        found = lookup(table, name, now=now, load=lambda group: 0)
        if isinstance(found, NotAdmitted):
            return refusals.model_not_ready(name, found.reasons)
        assert isinstance(found, Unknown), "what routes is listed"
        return refusals.model_not_found(name, found.available, found.not_ready)

    def status(self) -> bytes:
        """`/status.json`: the watched daemons, each group with its health, and what routes where."""
        table, now = self._cluster.table, self._clock()
        return _encode(
            {
                "version": __version__,
                "uptime_s": round(now - self._started, 3),
                "daemons": {daemon.claim.address: _daemon(daemon, now) for daemon in self._daemons()},
                "groups": self._groups(table, now),
                "models": {name: _model(routes) for name, routes in _routing(table, now).items()},
            }
        )

    def _groups(self, table: RouteTable, now: float) -> msgspec.Raw:
        """Of each group only the age of its probe result is new each time: the rest is written when it changes."""
        before, self._written = self._written, {}
        pieces = []
        for name, state in table.groups.items():
            why_not = verdict(state, now=now)
            written = before.get(name)
            if written is None or written.state is not state or written.why_not != why_not:
                written = _write(name, state, why_not)
            self._written[name] = written
            if state.probe is None:
                pieces.append(written.json)
            else:
                pieces.append(b"%b%.3f}}" % (written.json, now - state.probe.at))
        return msgspec.Raw(b"{%b}" % b",".join(pieces))


@dataclass(frozen=True, slots=True)
class _Written:
    """A member of `groups`."""

    state: GroupState
    why_not: str | None
    """The verdict when it was written."""
    json: bytes
    """Whole where there is no probe result; else up to that one's age, which is to be put behind, with two braces."""


def _decoded(path: str) -> str:
    """A model id may hold `/` as itself or as `%2F`; what is not UTF-8 reads as replacement characters."""
    return unquote_to_bytes(path.encode("latin-1")).decode(errors="replace")


def _daemon(daemon: Daemon, now: float) -> dict[str, Any]:
    view = daemon.view
    return {
        "connected": daemon.connected,
        "age_s": None if daemon.read_at is None else round(now - daemon.read_at, 3),
        "error": daemon.error,
        "events": daemon.events.connected,
        "source": daemon.claim.source,
        "trusted": daemon.claim.trusted,
        "node_id": view.node_id if view else daemon.claim.node_id,
        "hostname": view.hostname if view else "",
    }


def _write(name: str, state: GroupState, why_not: str | None) -> _Written:
    member = _encode(name) + b":" + _encode(_group(state, why_not))[:-1] + b',"probe":'
    if state.probe is None:
        return _Written(state, why_not, member + b"null}")
    return _Written(state, why_not, member + _encode(_probe(state.probe))[:-1] + b',"age_s":')


def _group(state: GroupState, why_not: str | None) -> dict[str, Any]:
    """Without its probe result."""
    group, probe = state.group, state.probe
    in_use = probe.url if probe is not None and probe.url in group.candidates else None
    return {
        "daemon": group.daemon,
        "agents_alive": group.agents_alive,
        "actors_running": group.actors_running,
        "openai": in_use or next(iter(group.candidates), None),
        "openai_candidates": group.candidates,
        "openai_note": group.openai_note,
        "provider": group.provider,
        "mcp": next(iter(group.mcp_candidates), None),
        "healthy": why_not is None,
        "models": _ids(probe) if why_not is None else None,
        "why_not": why_not,
        "mcp_candidates": group.mcp_candidates,
        "trusted": group.trusted,
        "agents": [_agent(agent) for agent in group.agents],
    }


def _agent(agent: Agent) -> dict[str, Any]:
    return {
        "id": agent.id,
        "node_ip": agent.node_ip,
        "container": agent.container,
        "alive": agent.alive,
        "degraded": agent.degraded,
        "gpus": agent.gpus,
        "provider": agent.provider,
    }


def _ids(probe: Probe | None) -> list[str]:
    return [] if probe is None else list(dict.fromkeys(entry.id for entry in probe.models))


def _probe(probe: Probe) -> dict[str, Any]:
    """Without its age."""
    return {
        "duration_s": round(probe.duration_s, 3),
        "attempts": [
            {"url": attempt.url, "error": attempt.error, "seconds": round(attempt.seconds, 3)}
            for attempt in probe.attempts
        ],
    }


def _routing(table: RouteTable, now: float) -> Mapping[str, list[Route]]:
    fresh = {
        name: [route for route in routes if now <= route.fresh_until] for name, routes in table.models.items()
    }
    return {name: routes for name, routes in fresh.items() if routes}


def _model(routes: list[Route]) -> dict[str, Any]:
    """The first group by name stands for the model; `alternates` are the others that serve it too."""
    first, *others = [{"group": route.group, "url": route.targets[0].url} for route in routes]
    return {**first, "alternates": others}
