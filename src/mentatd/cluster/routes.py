"""The route table: the one immutable value that the request path reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mentatd.cluster.admission import ModelEntry, Probe
from mentatd.cluster.groups import Group


@dataclass(frozen=True, slots=True)
class Target:
    """One base URL, taken apart once so that a request only joins its path to it."""

    url: str
    """The base as announced or derived, without a trailing slash."""
    host: str
    port: int
    tls: bool
    authority: bytes
    """For the Host field: `10.0.0.2:8000`, the port left out where it is the scheme's own."""
    prefix: bytes
    """What a target under `/v1` joins to: the base's path without its `/v1`, so `prefix + b"/v1/x"`; for a base
    that does not end in `/v1` see `whole`."""
    whole: bytes | None
    """None where the base's path ends in `/v1`. Else the base's whole path: `/v1/x` joins as `whole + b"/x"`, any
    other path as `whole + path`."""


@dataclass(frozen=True, slots=True)
class Route:
    """An admitted group, ready to be sent to."""

    group: str
    targets: tuple[Target, ...]
    """The one in use first, then the other candidates in rank order (for a failure to connect)."""
    fresh_until: float
    """Monotonic seconds; past it the route reads `endpoint probe stale`."""
    provider: str
    trusted: bool


@dataclass(frozen=True, slots=True)
class GroupState:
    """One group with its newest probe and verdict, for the documents."""

    group: Group
    probe: Probe | None
    why_not: str | None
    """As of `RouteTable.at`; `routes.verdict` re-judges it for a later moment."""
    route: Route | None
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
    """Names that are a group's though it is not admitted (model names that it served, its own name) to the groups."""


EMPTY = RouteTable(at=0.0, groups={}, models={}, entries={}, held={})


def build(
    groups: Mapping[str, Group],
    probes: Mapping[str, Probe],
    *,
    previous: RouteTable,
    now: float,
    fresh_s: float,
) -> RouteTable:
    """Build the next table. Reuses every `GroupState` of `previous` whose group and probe are the same objects and
    whose verdict still holds, so that a rebuild costs by what changed."""
    raise NotImplementedError


def verdict(state: GroupState, *, now: float, fresh_s: float) -> str | None:
    """`why_not` of this group at `now`, which may be later than the table."""
    raise NotImplementedError


def parse_target(url: str) -> Target:
    """Take a base URL apart. Raises ValueError for what is not an http or https URL with a host."""
    raise NotImplementedError
