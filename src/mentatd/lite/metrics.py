"""A lite daemon's `/metrics`: Prometheus text 0.0.4, under the published daemon's names where it counts the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from mentatd import __version__
from mentatd.lite.state import AgentRow, State

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_Samples = Iterable[tuple[Mapping[str, str], int]]


def exposition(state: State, subscribers: int) -> str:
    """The whole page; `subscribers` listen to the events."""
    living = [(key.group, row) for key, row in state.agents.items() if row.agent.alive]
    agents = Counter((group, _vendor(row)) for group, row in living)
    # every group has a row, also one whose agents are all lost
    gpus = dict.fromkeys((key.group for key in state.agents), 0)
    for group, row in living:
        gpus[group] += row.agent.gpus
    peers = Counter(
        "dead" if not row.alive else "stale" if row.stale else "alive" for row in state.peers.values()
    )
    families: list[tuple[str, str, str, _Samples]] = [
        ("build_info", "gauge", "The version that runs", [({"version": __version__}, 1)]),
        (
            "agents",
            "gauge",
            "Living agents",
            [({"group": group, "vendor": vendor}, n) for (group, vendor), n in sorted(agents.items())],
        ),
        ("gpus_total", "gauge", "GPUs that living agents offer", _by_group(gpus)),
        ("gpus_used", "gauge", "GPUs that are placed: none ever", _by_group(dict.fromkeys(gpus, 0))),
        ("agents_registered_total", "counter", "Registrations since the start", [({}, state.registrations)]),
        ("event_subscribers", "gauge", "Who listens to /events", [({}, subscribers)]),
        ("peers", "gauge", "Peers that there is a mesh link with", [({}, peers["alive"] + peers["stale"])]),
        ("peers_stale", "gauge", "Those of them that are silent", [({}, peers["stale"])]),
        ("peers_dead", "gauge", "Peers that were lost and are not yet forgotten", [({}, peers["dead"])]),
    ]
    return "".join(_family(*family) for family in families)


def _vendor(row: AgentRow) -> str:
    gpus = row.detail.machine.gpus
    return gpus[0].vendor if gpus else ""


def _by_group(values: Mapping[str, int]) -> _Samples:
    return [({"group": group}, value) for group, value in sorted(values.items())]


def _family(name: str, kind: str, told: str, samples: _Samples) -> str:
    lines = [f"# HELP mentat_{name} {told}", f"# TYPE mentat_{name} {kind}"]
    for labels, value in samples:
        said = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"mentat_{name}{{{said}}} {value}" if said else f"mentat_{name} {value}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
