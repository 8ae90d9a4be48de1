"""The router's documents: what routes now, and why the rest does not (wire.md section 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

from mentatd import __version__
from mentatd.cluster.admission import Probe
from mentatd.cluster.routes import GroupState, Route, RouteTable, listing, verdict
from mentatd.serve.daemon import Daemon
from mentatd.wire.openai import render_listing

_encode = msgspec.json.Encoder().encode


def models_document(table: RouteTable, *, now: float) -> bytes:
    """`/v1/models`: each model that routes at `now`, as its engine listed it."""
    return render_listing(listing(table, now=now))


def model_document(table: RouteTable, name: str, *, now: float) -> bytes | None:
    """`/v1/models/{id}`: one entry of the listing, or None."""
    return next((entry.json for entry in listing(table, now=now) if entry.id == name), None)


def model_id(path: str) -> str | None:
    """The model id that ends a request's path: percent-decoded, so that `/` may stand as itself or as `%2F`.

    `path` is what follows `/v1/models/`, as it came. None when it is not UTF-8.
    """
    try:
        return unquote_to_bytes(path.encode("latin-1")).decode()
    except UnicodeError:
        return None


def status_document(table: RouteTable, daemons: Iterable[Daemon], *, now: float, uptime_s: float) -> bytes:
    """`/status.json`. `now` is monotonic seconds."""
    return _encode(
        {
            "version": __version__,
            "uptime_s": round(uptime_s, 3),
            "daemons": {daemon.claim.address: _daemon(daemon, now) for daemon in daemons},
            "groups": {name: _group(state, now) for name, state in table.groups.items()},
            "models": {name: _model(routes) for name, routes in _routing(table, now).items()},
        }
    )


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


def _group(state: GroupState, now: float) -> dict[str, Any]:
    group, probe = state.group, state.probe
    why_not = verdict(state, now=now)
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
        "probe": None if probe is None else _probe(probe, now),
    }


def _ids(probe: Probe | None) -> list[str]:
    return [] if probe is None else list(dict.fromkeys(entry.id for entry in probe.models))


def _probe(probe: Probe, now: float) -> dict[str, Any]:
    return {
        "age_s": round(now - probe.at, 3),
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
