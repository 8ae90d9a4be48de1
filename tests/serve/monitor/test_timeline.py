"""The cluster's changes: what is one, what is not, and who notices."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from tests.serve.monitor.rows import table
from tests.support.clock import Clock
from tests.support.deadlines import until
from tests.support.views import failed_probe, group, probe

from mentatd.cluster.admission import Probe
from mentatd.cluster.routes import EMPTY, RouteTable, build
from mentatd.serve.cluster import Changes, Cluster
from mentatd.serve.daemon import Daemon
from mentatd.serve.monitor import timeline as module
from mentatd.serve.monitor.timeline import (
    CHANGES_KEPT,
    Change,
    DaemonNow,
    GroupNow,
    Scene,
    Timeline,
    differences,
    scene,
)
from mentatd.tasks import Tasks

A = "10.0.0.1:6380"
GLM = "http://10.0.0.1:8000/v1"
UP, DOWN = DaemonNow(None, "n1"), DaemonNow("connection refused", "n1")
SERVES = GroupNow(None, GLM)
FAILS = GroupNow(f"endpoint probe failed: {GLM}: connection refused", None)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, UP, [Change("daemon_seen", A, "n1")]),
        (None, DOWN, [Change("daemon_lost", A, "connection refused")]),
        (UP, DOWN, [Change("daemon_lost", A, "connection refused")]),
        (DOWN, UP, [Change("daemon_seen", A, "n1")]),
        (DOWN, replace(DOWN, error="timed out"), []),
        (UP, replace(UP, hostname="n2"), []),
        (UP, None, [Change("daemon_lost", A, "no longer watched")]),
        (DOWN, None, []),
    ],
)
def test_changes_of_a_daemon(
    before: DaemonNow | None, after: DaemonNow | None, expected: list[Change]
) -> None:
    scenes = [Scene(daemons={} if d is None else {A: d}) for d in (before, after)]
    assert list(differences(*scenes)) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, SERVES, [Change("group_admitted", "glm", GLM)]),
        (FAILS, SERVES, [Change("group_admitted", "glm", GLM)]),
        (None, FAILS, [Change("group_refused", "glm", str(FAILS.why_not))]),
        (SERVES, FAILS, [Change("group_refused", "glm", str(FAILS.why_not))]),
        (FAILS, GroupNow("endpoint probe failed: other words", None), []),
        (
            FAILS,
            GroupNow("no running actors", None),
            [Change("group_refused", "glm", "no running actors")],
        ),
        (
            SERVES,
            GroupNow(None, "http://192.168.1.1:8000/v1"),
            [Change("address_moved", "glm", f"http://192.168.1.1:8000/v1, was {GLM}")],
        ),
        (SERVES, SERVES, []),
        (SERVES, None, [Change("group_gone", "glm")]),
        (FAILS, None, [Change("group_gone", "glm")]),
    ],
)
def test_changes_of_a_group(before: GroupNow | None, after: GroupNow | None, expected: list[Change]) -> None:
    scenes = [Scene(groups={} if g is None else {"glm": g}) for g in (before, after)]
    assert list(differences(*scenes)) == expected


def daemon(
    address: str = A, *, error: str | None = None, polled: bool = True, hostname: str = "n1"
) -> Daemon:
    view = SimpleNamespace(hostname=hostname) if polled and error is None else None
    fake = SimpleNamespace(
        claim=SimpleNamespace(address=address), error=error, view=view, connected=polled and error is None
    )
    return cast("Daemon", fake)


def test_the_scene_of_a_table() -> None:
    now_is = scene(
        table({"glm": ["glm-5"]}, failing=["qwen"]),
        [daemon(), daemon("b", error="timed out"), daemon("c", polled=False)],
        Scene(),
        now=1.0,
    )
    assert now_is.daemons == {A: DaemonNow(None, "n1"), "b": DaemonNow("timed out", "")}
    assert now_is.groups["glm"] == SERVES
    assert str(now_is.groups["qwen"].why_not).startswith("endpoint probe failed")
    late = scene(table({"glm": ["glm-5"]}), [], Scene(), now=61.0)
    assert late.groups["glm"] == GroupNow("endpoint probe stale", None)


def test_a_group_that_waits_for_its_first_probe_stands_as_before() -> None:
    pending = build({"glm": group("glm")}, {}, previous=EMPTY, now=0.0, fresh_s=60.0)
    assert scene(pending, [], Scene(), now=0.0).groups == {}
    assert scene(pending, [], Scene(groups={"glm": SERVES}), now=0.0).groups == {"glm": SERVES}


def test_a_group_of_which_the_table_says_nothing_new_is_not_judged_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built = table({"glm": ["glm-5"]}, failing=["qwen"])
    before = scene(built, [], Scene(), now=0.0)
    monkeypatch.delattr(module, "verdict")
    again = scene(replace(built, at=1.0), [], before, now=1.0)
    assert again.groups == before.groups
    assert not list(differences(before, again))


class FakeCluster:
    def __init__(self, table: RouteTable) -> None:
        self.table = table
        self.changes = Changes()
        self.probed: Callable[[str, Probe], None] = lambda group, probe: None

    def on_probe(self, observer: Callable[[str, Probe], None]) -> None:
        self.probed = observer

    def publish(self, table: RouteTable) -> None:
        self.table = table
        self.changes.announce()


class Followed:
    """A timeline over a cluster and daemons that the test sets."""

    def __init__(self) -> None:
        self.cluster = FakeCluster(EMPTY)
        self.daemons: list[Daemon] = []
        self.timeline = Timeline(
            cast("Cluster", self.cluster),
            lambda: self.daemons,
            clock=Clock(1.0),
            wall_clock=lambda: 1_800_000_000.0,
        )

    def kinds(self) -> list[str]:
        return [entry.change.kind for entry in self.timeline.last]


@asynccontextmanager
async def running() -> AsyncIterator[Followed]:
    followed, tasks = Followed(), Tasks("test")
    tasks.start(followed.timeline.run(), "timeline")
    try:
        yield followed
    finally:
        await tasks.close()


async def test_each_new_table_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mentatd.serve.monitor.timeline.REST_S", 0.001)
    async with running() as f:
        f.cluster.publish(table({"glm": ["glm-5"]}))
        await until(lambda: f.kinds() == ["group_admitted"])
        f.cluster.publish(table({}, failing=["glm"]))
        await until(lambda: f.kinds() == ["group_admitted", "group_refused"])
        f.cluster.publish(EMPTY)
        await until(lambda: f.kinds()[2:] == ["group_gone"])
    assert [entry.id for entry in f.timeline.last] == ["c1", "c2", "c3"]
    assert f.timeline.last[0].at == 1_800_000_000.0


async def test_a_daemon_is_looked_at_without_a_new_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mentatd.serve.monitor.timeline.REST_S", 0.001)
    monkeypatch.setattr("mentatd.serve.monitor.timeline.LOOK_S", 0.001)
    async with running() as f:
        f.daemons = [daemon(error="timed out")]
        await until(lambda: f.kinds() == ["daemon_lost"])


def test_only_the_newest_changes_are_kept_and_no_long_text() -> None:
    f = Followed()
    for n in range(CHANGES_KEPT + 10):
        f.daemons = [daemon(error="x" * 9000 if n % 2 else None)]
        f.timeline.look()
    assert len(f.timeline.last) == CHANGES_KEPT
    assert f.timeline.total == CHANGES_KEPT + 10
    assert max(len(entry.change.detail) for entry in f.timeline.last) == 500


def test_each_probe_is_counted_for_as_long_as_its_group_is_there() -> None:
    f = Followed()
    f.cluster.table = table({"glm": ["glm-5"]})
    assert f.timeline.probes_of("glm").ok == 0
    f.cluster.probed("glm", probe(group("glm"), "glm-5"))
    f.cluster.probed("glm", failed_probe(group("glm"), "connection refused"))
    f.cluster.probed("glm", replace(probe(group("glm"), "glm-5"), duration_s=2.0))
    f.timeline.look()
    counted = f.timeline.probes_of("glm")
    assert (counted.ok, counted.failed, counted.duration.total) == (2, 1, 2.0)
    assert sum(counted.duration.counts) == 3
    f.cluster.table = EMPTY
    f.timeline.look()
    assert f.timeline.probes_of("glm").ok == 0
