"""What a lite daemon says of its state: snapshot, events, announcement (wire.md sections 1 and 2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mentatd.lite.state import AgentKey, Change, State
from mentatd.wire.announcement import Announcement
from mentatd.wire.snapshot import Agent, GroupView, View
from mentatd.wire.snapshot_writer import DaemonDetail, agent_row, write_snapshot


def view(state: State, group: str | None = None) -> View:
    """The state as readers of a snapshot see it; `group` scopes it to that one group, if there is such."""
    node = state.node
    members: dict[str, list[Agent]] = {}
    for key, row in state.agents.items():
        if group is None or key.group == group:
            members.setdefault(key.group, []).append(row.agent)
    return View(
        generation=node.generation,
        node_id=node.node_id,
        node_ip=node.node_ip,
        hostname=node.hostname,
        addrs=state.addrs,
        peers=(),
        groups={
            name: GroupView(agents=tuple(sorted(agents, key=lambda agent: agent.id)), actors=())
            for name, agents in sorted(members.items())
        },
    )


def snapshot(state: State, group: str | None = None) -> bytes:
    """The JSON of `/status`."""
    detail = DaemonDetail(
        control_addr=join(state.node.node_ip, state.node.control_port),
        addr_ifaces=state.ifaces,
        seq=state.seq,
        boot_id=state.node.boot_id,
        counters={"agents_registered": state.registrations},
        agents={key.id: row.detail for key, row in state.agents.items() if group in (None, key.group)},
    )
    return write_snapshot(view(state, group), detail)


def first_frame(state: State) -> str:
    """What a subscriber of `/events` gets first."""
    return f'{{"type":"snapshot","seq":{state.seq},"data":{snapshot(state).decode()}}}'


def event_frame(state: State, change: Change, now_ms: int) -> str:
    """One event; `state` is the one that the change led to.

    Generation A names what changed in free fields, generation B carries the rows themselves as a patch.
    """
    event: dict[str, Any] = {
        "type": change.kind,
        "seq": change.seq,
        "ts_ms": now_ms,
        "node": state.node.node_id,
    }
    if change.why:
        event["why"] = change.why
    if state.node.generation == "B":
        event["patch"] = _patch(state, change.key)
    elif change.key is not None:
        event |= {"group": change.key.group, "agent_id": change.key.id}
    return json.dumps(event, separators=(",", ":"))


def announcement(state: State, *, universe: str, seq: int, now_s: int) -> Announcement:
    """What is sent over UDP; `seq` counts the rounds of this process, not the changes."""
    node = state.node
    return Announcement(
        generation=node.generation,
        node_id=node.node_id,
        http_host=node.node_ip,
        http_port=node.http_port,
        control=join(node.node_ip, node.control_port),
        universe=universe,
        addrs=state.addrs,
        boot_id=node.boot_id,
        seq=seq,
        t=now_s,
    )


def join(host: str, port: int) -> str:
    """`host:port`, IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _patch(state: State, key: AgentKey | None) -> list[Mapping[str, Any]]:
    """The paths that a change touched, each with what stands there now; without `value` it is gone."""
    if key is None:
        return [
            {"at": ["addrs"], "value": state.addrs},
            {"at": ["addr_ifaces"], "value": dict(state.ifaces)},
        ]
    at = ["groups", key.group]
    members = [row.agent for other, row in state.agents.items() if other.group == key.group]
    if not members:
        return [{"at": at}]
    row = state.agents.get(key)
    patch: dict[str, Any] = {"at": [*at, "agents", key.id]}
    if row is not None:
        patch["value"] = agent_row(row.agent, row.detail, "B")
    total = sum(agent.gpus for agent in members if agent.alive)
    return [patch, {"at": [*at, "gpus_total"], "value": total}]
