"""The metrics of a lite daemon, as a scraper reads them."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families
from tests.lite.samples import agent, state
from tests.lite.test_peers import NODE, joined

from mentatd import __version__
from mentatd.lite.metrics import exposition
from mentatd.lite.peers import leave, notice_silence
from mentatd.lite.state import AgentKey, State, lose, register
from mentatd.wire.machine import Gpu, Machine

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(state: State, subscribers: int = 0) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(exposition(state, subscribers))
        for sample in family.samples
    }


def test_an_empty_daemon() -> None:
    assert read(state(), 3) == {
        ("mentat_build_info", (("version", __version__),)): 1,
        ("mentat_agents_registered_total", ()): 0,
        ("mentat_event_subscribers", ()): 3,
        ("mentat_peers", ()): 0,
        ("mentat_peers_stale", ()): 0,
        ("mentat_peers_dead", ()): 0,
    }


def test_agents_and_their_gpus() -> None:
    nvidia = Machine(gpus=(Gpu(0, "nvidia"), Gpu(1, "nvidia")))
    now, _ = register(state(), replace(agent("a"), machine=nvidia), "127.0.0.1", 1)
    now, _ = register(now, agent("b"), "127.0.0.1", 2)
    now, _ = register(now, agent("c", 'q"w\\e\nn', gpus=1), "127.0.0.1", 3)
    now, _ = lose(now, AgentKey('q"w\\e\nn', "c"), 3, 5000)
    found = read(now)
    assert found["mentat_agents", (("group", "glm"), ("vendor", "nvidia"))] == 1
    assert found["mentat_agents", (("group", "glm"), ("vendor", ""))] == 1
    assert found["mentat_gpus_total", (("group", "glm"),)] == 2
    assert found["mentat_gpus_total", (("group", 'q"w\\e\nn'),)] == 0
    assert found["mentat_gpus_used", (("group", "glm"),)] == 0
    assert found["mentat_agents_registered_total", ()] == 3


def test_peers() -> None:
    now = joined()
    for number in (3, 4):
        now = joined(replace(NODE, node_id=f"n{number}"), number, before=now)
    now, _ = leave(notice_silence(now, 200.0)[0], "n4", 4, "", 7000)
    now = joined(replace(NODE, node_id="n5"), 5, before=now)
    found = read(now)
    assert [found[f"mentat_peers{rest}", ()] for rest in ("", "_stale", "_dead")] == [3, 2, 1]
