"""The bench's daemons report what a router understands, and change what a router must look at."""

from __future__ import annotations

from bench.daemons import changed, host, views
from bench.workloads import Fleet

from mentatd.wire.snapshot import read_snapshot
from mentatd.wire.snapshot_writer import write_snapshot

FLEET = Fleet(daemons=4, groups=10)


def test_each_group_is_reported_once_and_each_daemon_knows_the_others() -> None:
    reported = views(FLEET, 6380, 8000)
    names = [name for view in reported for name in view.groups]
    assert sorted(names) == sorted(FLEET.models)
    assert [len(view.peers) for view in reported] == [3, 3, 3, 3]
    assert {peer.node_ip for peer in reported[0].peers} == {host(1), host(2), host(3)}


def test_a_router_reads_what_they_write() -> None:
    for view in views(FLEET, 6380, 8000):
        reading = read_snapshot(write_snapshot(view))
        assert not reading.problems
        assert reading.view.groups.keys() == view.groups.keys()


def test_a_change_is_one_and_admits_the_same_groups() -> None:
    view = views(FLEET, 6380, 8000)[0]
    for turn in range(4):
        other = changed(view, turn)
        assert other != view
        assert all(group.actors[0].state == "running" for group in other.groups.values())
        assert sum(len(group.actors) - 1 for group in other.groups.values()) == 1
        view = other
