"""The route table: the one immutable value that the request path reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from mentatd.cluster.admission import STALE, WIRE_LIMIT, Probe, why_not
from mentatd.cluster.groups import Group
from mentatd.cluster.targets import Target, parse_target
from mentatd.wire.openai import ModelEntry


@dataclass(frozen=True, slots=True)
class Route:
    """An admitted group, ready to be sent to."""

    group: str
    targets: tuple[Target, ...]
    """The one in use first, if it is still a candidate, then the others in rank order (for a failure to connect)."""
    fresh_until: float
    """Monotonic seconds; past it the route reads `endpoint probe stale`."""
    provider: str
    trusted: frozenset[str]
    """URLs of the targets that may be sent the engines' key."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """One group with its newest probe and verdict, for the documents."""

    group: Group
    probe: Probe | None
    why_not: str | None
    """As of `RouteTable.at`; `verdict` re-judges it for a later moment."""
    route: Route | None
    """None when not admitted."""
    names: tuple[str, ...]
    """Model names that it serves, or served before it stopped being admitted."""


@dataclass(frozen=True, slots=True)
class RouteTable:
    """What routes now, and why the rest does not."""

    at: float
    """When it was built, monotonic seconds."""
    groups: Mapping[str, GroupState]
    """Ordered by name."""
    models: Mapping[str, tuple[Route, ...]]
    """By model name; the routes ordered by group name."""
    entries: Mapping[str, ModelEntry]
    """The listing's entry for each routable model: the first group's, by name."""
    held: Mapping[str, tuple[str, ...]]
    """Names that are a group's though it is not admitted (model names that it served, its own name) to the
    groups, ordered by name."""


EMPTY = RouteTable(at=0.0, groups={}, models={}, entries={}, held={})


def build(
    groups: Mapping[str, Group],
    probes: Mapping[str, Probe],
    *,
    previous: RouteTable,
    now: float,
    fresh_s: float,
) -> RouteTable:
    """Build the next table; `groups` are ordered by name, as `merge` returns them.

    Every `GroupState` of `previous` whose group is equal, whose probe is the same object and whose verdict
    still holds is used again.
    """
    states = {
        name: _state(group, probes.get(name), previous.groups.get(name), now=now, fresh_s=fresh_s)
        for name, group in groups.items()
    }
    models: dict[str, tuple[Route, ...]] = {}
    entries: dict[str, ModelEntry] = {}
    held: dict[str, tuple[str, ...]] = {}
    for name, state in states.items():
        if state.route is None:
            for held_name in dict.fromkeys((*state.names, name)):
                held[held_name] = (*held.get(held_name, ()), name)
        else:
            for entry in _listed(state.probe):
                others = models.get(entry.id, ())
                if not others or others[-1] is not state.route:
                    models[entry.id] = (*others, state.route)
                    entries.setdefault(entry.id, entry)
    return RouteTable(at=now, groups=states, models=models, entries=entries, held=held)


def _state(
    group: Group, probe: Probe | None, before: GroupState | None, *, now: float, fresh_s: float
) -> GroupState:
    reason = why_not(group, probe, now=now, fresh_s=fresh_s)
    if (
        before is not None
        and before.probe is probe
        and before.why_not == reason
        and (before.group is group or before.group == group)
    ):
        return before
    route = None
    if reason is None and probe is not None and probe.url is not None:
        known = () if before is None or before.route is None else before.route.targets
        try:
            route = _route(group, probe.url, known, fresh_until=probe.at + fresh_s)
        except ValueError as error:
            reason = f"endpoint probe failed: {probe.url[:WIRE_LIMIT]}: {error}"
    listed = tuple(entry.id for entry in _listed(probe))
    names = listed or (before.names if before is not None else ())
    return GroupState(group=group, probe=probe, why_not=reason, route=route, names=names)


def _listed(probe: Probe | None) -> tuple[ModelEntry, ...]:
    return () if probe is None else probe.models


def _route(group: Group, in_use: str, known: Iterable[Target], *, fresh_until: float) -> Route:
    """`known` are targets that need not be parsed again. Raises ValueError where a candidate is no base URL."""
    ranked = sorted(group.candidates, key=lambda candidate: candidate != in_use)
    parsed = {target.url: target for target in known}
    return Route(
        group=group.name,
        targets=tuple(parsed.get(url) or parse_target(url) for url in ranked),
        fresh_until=fresh_until,
        provider=group.provider,
        trusted=group.trusted_candidates,
    )


def verdict(state: GroupState, *, now: float) -> str | None:
    """`why_not` of this group at `now`, which may be later than the table: until the next table, the only
    thing that can happen to a group is that its probe result goes stale."""
    if state.route is None:
        return state.why_not
    return STALE if now > state.route.fresh_until else None


@dataclass(frozen=True, slots=True)
class NotAdmitted:
    """The name is that of a group, or of a model, which cannot be served now: 503."""

    reasons: Mapping[str, str]
    """Each group that the name belongs to, ordered by name, to why it is not admitted."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing serves the name: 404."""

    available: tuple[str, ...]
    """The model names that route now, sorted."""
    not_ready: Mapping[str, str]
    """Each group that is not admitted, ordered by name, to the reason."""


def lookup(
    table: RouteTable, model: str, *, now: float, load: Callable[[str], int]
) -> Route | NotAdmitted | Unknown:
    """Where a request for `model` goes.

    Several groups serve it: the one with the fewest requests in flight (`load` of its name), ties to the
    first by name. A route whose probe result went stale since the table was built is passed over.
    """
    routes = table.models.get(model, ())
    if len(routes) == 1 and now <= routes[0].fresh_until:
        return routes[0]
    fresh = [route for route in routes if now <= route.fresh_until]
    if fresh:
        return min(fresh, key=lambda route: load(route.group))
    owners = {model, *(route.group for route in routes), *table.held.get(model, ())}
    reasons = _reasons(table, sorted(owners), now)
    if reasons:
        return NotAdmitted(reasons)
    available = sorted(name for name, serving in table.models.items() if _first_fresh(serving, now))
    return Unknown(tuple(available), _reasons(table, table.groups, now))


def listing(table: RouteTable, *, now: float) -> tuple[ModelEntry, ...]:
    """The entry of each model that routes at `now`, in the order of the groups and their engines' lists."""
    entries: list[ModelEntry] = []
    for name, routes in table.models.items():
        route = _first_fresh(routes, now)
        if route is routes[0]:
            entries.append(table.entries[name])
        elif route is not None:
            entries.extend(_entry(table.groups[route.group], name))
    return tuple(entries)


def _first_fresh(routes: tuple[Route, ...], now: float) -> Route | None:
    return next((route for route in routes if now <= route.fresh_until), None)


def _entry(state: GroupState, model: str) -> Iterable[ModelEntry]:
    """The group's own entry for `model`, the first where its engine lists it twice."""
    return [entry for entry in _listed(state.probe) if entry.id == model][:1]


def _reasons(table: RouteTable, names: Iterable[str], now: float) -> dict[str, str]:
    """Of these names, the groups that are not admitted at `now`, and why."""
    reasons = {}
    for name in names:
        state = table.groups.get(name)
        reason = None if state is None else verdict(state, now=now)
        if reason is not None:
            reasons[name] = reason
    return reasons
