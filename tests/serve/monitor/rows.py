"""Requests and tables, written short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.support.views import failed_probe, group, probe

from mentatd.cluster.admission import Probe
from mentatd.cluster.routes import EMPTY, RouteTable, build
from mentatd.serve.inflight import Row

GLM = "http://10.0.0.1:8000/v1"


def row(
    id_: str = "1",
    model: str = "glm-5",
    group: str = "glm",
    *,
    started: float = 0.0,
    first: float | None = None,
    ended: float | None = None,
    out: int = 0,
    status: int = 0,
    failure: str | None = None,
    path: str = "/v1/chat/completions",
) -> Row:
    """A request that began at loop time `started`; its id is a hexadecimal number."""
    made = Row(model, group, GLM, "192.168.1.9", path, prompt_bytes=17, stream=True, started=started)
    made.number, made.first_byte, made.ended, made.passed = int(id_, 16), first, ended, out
    made.status, made.failure = status, failure
    return made


def table(
    serving: Mapping[str, Sequence[str]], failing: Sequence[str] = (), *, now: float = 0.0
) -> RouteTable:
    """Groups that serve these models, and groups whose probe failed; good for a minute from `now`."""
    groups = {name: group(name) for name in sorted((*serving, *failing))}
    probes: dict[str, Probe] = {}
    for name, models in serving.items():
        probes[name] = probe(groups[name], *models, at=now)
    for name in failing:
        probes[name] = failed_probe(groups[name], "connection refused", at=now)
    return build(groups, probes, previous=EMPTY, now=now, fresh_s=60.0)


class Published:
    """Has the table that a test gives it."""

    def __init__(self, table: RouteTable = EMPTY) -> None:
        self.table = table
