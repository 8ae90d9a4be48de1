"""What is known of peers, and every way in which it changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.lite.samples import state

from mentatd.lite import peers
from mentatd.lite.peers import Target, forget, hear, join_mesh, leave, notice_silence, takes, targets
from mentatd.lite.state import State
from mentatd.wire.mesh import MeshNode
from mentatd.wire.snapshot import Agent, GroupView, Peer, View

NODE = MeshNode("n2", "10.0.0.2", "10.0.0.2:6379", 6380, ("10.0.0.2", "192.168.1.12"))
VIEW = View("A", "n2", "10.0.0.2", "h2", NODE.addrs, (), {})


def joined(
    node: MeshNode = NODE, link: int = 1, *, before: State | None = None, dialled: bool = True
) -> State:
    """A peer of the node `n1`, up since second 100."""
    before = state() if before is None else before
    return join_mesh(before, node, link=link, link_ip="10.0.0.2", dialled=dialled, now_ms=5000, now_s=100.0)[
        0
    ]


def test_joining() -> None:
    after, changes = join_mesh(
        state(), NODE, link=1, link_ip="192.168.1.12", dialled=True, now_ms=5000, now_s=100.0
    )
    assert [(c.kind, c.peer, c.why, c.seq) for c in changes] == [("node_join", "n2", "192.168.1.12", 1)]
    row = after.peers["n2"]
    assert (row.alive, row.stale, row.last_seen_ms, row.gone_since_ms) == (True, False, 5000, 0)


def test_a_link_that_replaces_one_is_not_told_unless_the_peer_was_stale() -> None:
    before = joined()
    again = join_mesh(before, NODE, link=2, link_ip="10.0.0.2", dialled=False, now_ms=6000, now_s=101.0)
    assert (again[0].peers["n2"].link, again[1]) == (2, ())
    stale, _ = notice_silence(before, 200.0)
    after, (change,) = join_mesh(
        stale, NODE, link=2, link_ip="10.0.0.2", dialled=True, now_ms=6000, now_s=200.0
    )
    assert change.kind == "peer_recovered"
    assert not after.peers["n2"].stale


def test_leaving_and_returning() -> None:
    left, changes = leave(joined(), "n2", 1, "link closed", 7000)
    assert [(c.kind, c.peer, c.why) for c in changes] == [("node_leave", "n2", "link closed")]
    assert (left.peers["n2"].alive, left.peers["n2"].gone_since_ms) == (False, 7000)
    assert leave(left, "n2", 1, "again", 8000) == (left, ())
    back, (change,) = join_mesh(
        left, NODE, link=2, link_ip="10.0.0.2", dialled=True, now_ms=9000, now_s=104.0
    )
    assert change.kind == "node_join"
    assert (back.peers["n2"].alive, back.peers["n2"].gone_since_ms) == (True, 0)


def test_an_older_link_and_a_stranger_have_no_say() -> None:
    before = joined(link=2)
    for node_id, link in (("n2", 1), ("n9", 2)):
        assert leave(before, node_id, link, "", 7000) == (before, ())
        assert hear(before, node_id, link, VIEW, now_ms=7000, now_s=102.0) == (before, ())


def test_a_status_is_a_sign_of_life_and_no_event() -> None:
    agents = tuple(
        Agent(str(n), "", "", "", alive, False, 2, "", {}, {}) for n, alive in enumerate((True, False))
    )
    other = Peer("n3", "10.0.0.3", "", (), 6380, True, False, "10.0.0.3:6379")
    view = replace(
        VIEW,
        peers=(other, replace(other, node_id="n4", alive=False)),
        groups={"glm": GroupView(agents, (), gpus_used=1)},
    )
    after, changes = hear(joined(), "n2", 1, view, now_ms=7000, now_s=102.0)
    assert changes == ()
    row = after.peers["n2"]
    assert (row.last_seen_ms, row.heard_s) == (7000, 102.0)
    assert (row.gpus, row.knows) == ({"glm": (2, 1)}, (other,))


def test_addresses_that_changed_are_told() -> None:
    moved = replace(VIEW, addrs=("10.0.0.9",))
    after, (change,) = hear(joined(), "n2", 1, moved, now_ms=7000, now_s=102.0)
    assert (change.kind, change.why) == ("peer_addrs_changed", "10.0.0.9")
    assert after.peers["n2"].node.addrs == ("10.0.0.9",)
    # one that does not say any has said them when the link opened
    kept, changes = hear(after, "n2", 1, replace(VIEW, addrs=()), now_ms=7000, now_s=102.0)
    assert (kept.peers["n2"].node.addrs, changes) == (("10.0.0.9",), ())


def test_silence() -> None:
    before = joined()
    assert notice_silence(before, 100.0) == (before, ())
    stale, (change,) = notice_silence(before, 100.1)
    assert (change.kind, change.peer, stale.peers["n2"].stale) == ("peer_stale", "n2", True)
    assert notice_silence(stale, 200.0) == (stale, ())
    back, (change,) = hear(stale, "n2", 1, VIEW, now_ms=7000, now_s=131.0)
    assert (change.kind, back.peers["n2"].stale) == ("peer_recovered", False)
    left, _ = leave(before, "n2", 1, "", 7000)
    assert notice_silence(left, 200.0) == (left, ())


@pytest.mark.parametrize(("before_ms", "kept"), [(7000, True), (7001, False)])
def test_forgetting(before_ms: int, kept: bool) -> None:
    left, _ = leave(joined(before=joined(replace(NODE, node_id="n3"), 2)), "n2", 1, "", 7000)
    after, changes = forget(left, before_ms)
    assert ("n2" in after.peers, "n3" in after.peers) == (kept, True)
    assert [(c.kind, c.peer, c.seq) for c in changes] == [("peer_forgotten", "n2", left.seq + 1)] * (not kept)


@pytest.mark.parametrize(
    ("node_id", "was_dialled", "dialled", "now_s", "taken"),
    [
        # n1 is this daemon's own id
        ("n2", False, True, 101.0, True),
        ("n2", True, False, 101.0, False),
        ("n0", True, False, 101.0, True),
        ("n0", False, True, 101.0, False),
        ("n2", True, True, 101.0, False),
        ("n2", False, False, 101.0, False),
        ("n2", True, False, 105.1, True),
        ("n2", True, True, 105.1, True),
    ],
)
def test_which_of_two_links_stays(
    node_id: str, was_dialled: bool, dialled: bool, now_s: float, taken: bool
) -> None:
    before = joined(replace(NODE, node_id=node_id), dialled=was_dialled)
    assert takes(before, node_id, dialled=dialled, now_s=now_s) == taken


def test_both_sides_keep_the_same_link() -> None:
    """Whichever of two links that were dialled at one time comes up first on which side."""
    for first_here, first_there in ((a, b) for a in (True, False) for b in (True, False)):
        here = joined(replace(NODE, node_id="n2"), dialled=first_here)
        there = replace(state(), node=replace(state().node, node_id="n2"))
        there = joined(replace(NODE, node_id="n1"), before=there, dialled=first_there)
        mine_here = first_here != takes(here, "n2", dialled=not first_here, now_s=100.0)
        theirs_there = first_there != takes(there, "n1", dialled=not first_there, now_s=100.0)
        assert mine_here
        assert not theirs_there


def test_a_peer_that_left_is_taken_again_and_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "MAX_PEERS", 1)
    left, _ = leave(joined(), "n2", 1, "", 7000)
    assert takes(left, "n2", dialled=False, now_s=100.0)
    assert not takes(left, "n3", dialled=True, now_s=100.0)


def names(*targets: Target) -> list[str]:
    return [target.name for target in targets]


def test_seeds_are_dialled_until_they_are_linked() -> None:
    seeds = [("10.0.0.2", 6379), ("box", 6379), ("self", 6379)]
    assert targets(state(), seeds, {})[0] == Target("10.0.0.2:6379", (("10.0.0.2", 6379),))
    assert names(*targets(state(), seeds, {"self:6379": "n1"})) == ["10.0.0.2:6379", "box:6379"]
    # one is known by its control address, the other by who answered there
    assert names(*targets(joined(), seeds, {"box:6379": "n2"})) == ["self:6379"]
    left, _ = leave(joined(), "n2", 1, "", 7000)
    assert names(*targets(left, [("box", 6379)], {"box:6379": "n2"})) == ["box:6379", "n2"]


def test_a_lost_peer_is_dialled_on_every_address_that_it_said() -> None:
    left, _ = leave(joined(), "n2", 1, "", 7000)
    assert targets(left, [], {}) == (Target("n2", (("10.0.0.2", 6379), ("192.168.1.12", 6379))),)
    # once, when it is a seed under the same address
    assert names(*targets(left, [("10.0.0.2", 6379)], {})) == ["10.0.0.2:6379"]
    assert targets(forget(left, 9000)[0], [], {}) == ()


def test_what_living_peers_tell_of_is_dialled() -> None:
    told = (
        Peer("n1", "10.0.0.1", "", (), 6380, True, False, "10.0.0.1:6379"),
        Peer("n2", "10.0.0.2", "", (), 6380, True, False, "10.0.0.2:6379"),
        Peer("n3", "10.0.0.3", "", ("10.0.0.3", "fd00::3"), 6380, True, False, "10.0.0.3:7000"),
        Peer("n4", "10.0.0.4", "", (), 6380, True, False),
    )
    now, _ = hear(joined(), "n2", 1, replace(VIEW, peers=told), now_ms=7000, now_s=102.0)
    assert targets(now, [], {}) == (Target("n3", (("10.0.0.3", 7000), ("fd00::3", 7000))),)
    assert names(*targets(leave(now, "n2", 1, "", 8000)[0], [], {})) == ["n2"]
