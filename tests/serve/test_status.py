"""The router's documents, from literal tables."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.clock import Clock
from tests.support.views import V1, agent, failed_probe, group, probe, view

from mentatd.cluster.groups import Group
from mentatd.cluster.routes import EMPTY, RouteTable, build
from mentatd.cluster.watchset import Claim
from mentatd.errors import Refusal
from mentatd.serve import status as module
from mentatd.serve.daemon import Daemon
from mentatd.serve.status import Documents

AT = 1000.0


def table(*groups: Group, models: dict[str, tuple[str, ...]] | None = None, at: float = AT) -> RouteTable:
    """The groups in `models` answered their probe with these models."""
    probes = {g.name: probe(g, *(models or {})[g.name], at=at) for g in groups if g.name in (models or {})}
    return build({g.name: g for g in groups}, probes, previous=EMPTY, now=at, fresh_s=18.0)


def documents(table: RouteTable, *daemons: Any, clock: Clock | None = None) -> Documents:
    holder = cast("Any", SimpleNamespace(table=table))
    return Documents(holder, lambda: cast("tuple[Daemon, ...]", daemons), clock=clock or Clock(AT))


def daemon(address: str = "10.0.0.1:6380", **more: Any) -> SimpleNamespace:
    values: dict[str, Any] = {
        "claim": Claim(address, "n1", "seed", trusted=True, near=True),
        "connected": True,
        "read_at": AT - 1.5,
        "error": None,
        "view": replace(view(), node_id="n1", hostname="box"),
        "events": SimpleNamespace(connected=True),
    }
    return SimpleNamespace(**(values | more))


def ids(found: Documents) -> list[str]:
    return [entry["id"] for entry in json.loads(found.models())["data"]]


GLM = group("glm", agent(provider="vllm", note="bound to 10.0.0.1 only", mcp=V1))
QWEN = group("qwen", agent("qwen@c0@10.0.0.2"))


def test_the_listing_has_each_model_that_routes_as_its_engine_listed_it() -> None:
    listed = table(GLM, QWEN, models={"glm": ("glm-5", "lora"), "qwen": ("qwen-3", "lora")})
    found = documents(listed)
    assert json.loads(found.models()) == {
        "object": "list",
        "data": [{"id": "glm-5"}, {"id": "lora"}, {"id": "qwen-3"}],
    }


def test_what_goes_stale_leaves_every_document_without_a_rebuild() -> None:
    clock = Clock(AT)
    found = documents(table(GLM, models={"glm": ("glm-5",)}), clock=clock)
    assert ids(found) == ["glm-5"]
    clock.now += 18.1
    assert ids(found) == []
    status = json.loads(found.status())
    assert status["models"] == {}
    assert status["groups"]["glm"]["healthy"] is False
    assert status["groups"]["glm"]["why_not"] == "endpoint probe stale"
    assert status["groups"]["glm"]["models"] is None
    assert status["uptime_s"] == 18.1


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("glm-5", "glm-5"),
        ("glm-5", "glm-5/"),
        ("org/glm:5", "org/glm:5"),
        ("org/glm:5", "org%2Fglm%3a5"),
        ("ends/", "ends/"),
        ("modèle ☃", "mod%C3%A8le%20%E2%98%83"),
        ("modèle", "modèle".encode().decode("latin-1")),
        ("100%", "100%"),
        ("a+b", "a+b"),
        ("status.json", "status.json"),
    ],
)
def test_one_model_is_found_however_its_id_is_written(name: str, path: str) -> None:
    found = documents(table(GLM, models={"glm": ("other", name)}))
    assert json.loads(cast("bytes", found.model(path))) == {"id": name}


def test_a_model_that_nothing_serves_is_refused_as_a_request_for_it_would_be() -> None:
    shut = replace(QWEN, actors_running=0)
    found = documents(table(GLM, shut, models={"glm": ("glm-5",), "qwen": ("qwen-3",)}))
    unknown = found.model("glm%2F6/")
    assert isinstance(unknown, Refusal)
    assert unknown.status == 404
    assert "'glm/6'" in unknown.message
    assert dict(unknown.extra) == {"available": ["glm-5"], "not_ready": {"qwen": "no running actors"}}
    for name in ("qwen-3", "qwen"):
        held = found.model(name)
        assert isinstance(held, Refusal)
        assert held.status == 503
        assert "no running actors" in held.message
    broken = found.model("%FF")
    assert isinstance(broken, Refusal)
    assert broken.status == 404


def test_the_status_is_that_of_now_however_often_it_is_asked_for() -> None:
    clock = Clock(AT)
    first = table(GLM, QWEN, group("new"), models={"glm": ("glm-5",), "qwen": ("qwen-3",)})
    found = documents(first, daemon(), clock=clock)

    def differs_from_a_first_answer() -> bool:
        fresh = documents(found._cluster.table, daemon(), clock=clock)
        return bool(json.loads(found.status())["groups"] != json.loads(fresh.status())["groups"])

    assert not differs_from_a_first_answer()
    clock.now += 5.0
    assert not differs_from_a_first_answer()
    assert json.loads(found.status())["groups"]["glm"]["probe"]["age_s"] == 5.0
    changed = replace(GLM, actors_running=7)
    found._cluster.table = table(changed, models={"glm": ("glm-6",)}, at=AT + 3.0)
    assert not differs_from_a_first_answer()
    assert json.loads(found.status())["groups"]["glm"]["models"] == ["glm-6"]
    clock.now += 60.0
    assert not differs_from_a_first_answer()


def test_of_a_status_only_what_changed_is_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    found = documents(table(GLM, models={"glm": ("glm-5",)}))
    first = found.status()
    monkeypatch.delattr(module, "_group")
    assert found.status() == first


def test_the_status_of_a_group_that_serves() -> None:
    status = json.loads(
        documents(table(GLM, models={"glm": ("glm-5", "glm-5")}), clock=Clock(AT + 2)).status()
    )
    assert status["groups"]["glm"] == {
        "daemon": "10.0.0.1:6380",
        "agents_alive": 1,
        "actors_running": 1,
        "openai": "http://10.0.0.1:8000/v1",
        "openai_candidates": ["http://10.0.0.1:8000/v1"],
        "openai_note": "bound to 10.0.0.1 only",
        "provider": "vllm",
        "mcp": "http://10.0.0.1:8000/v1",
        "mcp_candidates": ["http://10.0.0.1:8000/v1"],
        "healthy": True,
        "models": ["glm-5"],
        "why_not": None,
        "trusted": True,
        "probe": {
            "age_s": 2.0,
            "duration_s": 0.0,
            "attempts": [{"url": "http://10.0.0.1:8000/v1", "error": None, "seconds": 0.01}],
        },
        "agents": [
            {
                "id": "glm@c0@10.0.0.1",
                "node_ip": "10.0.0.1",
                "container": "c0",
                "alive": True,
                "degraded": False,
                "gpus": 1,
                "provider": "vllm",
            }
        ],
    }
    assert status["models"] == {"glm-5": {"group": "glm", "url": "http://10.0.0.1:8000/v1", "alternates": []}}


def test_the_status_of_groups_that_do_not_serve() -> None:
    mute = group("mute", agent("mute@c0@10.0.0.3", openai=None))
    probes = {"qwen": failed_probe(QWEN, "HTTP 401", at=AT)}
    groups = {"glm": GLM, "mute": mute, "qwen": QWEN}
    built = build(groups, probes, previous=EMPTY, now=AT, fresh_s=18.0)
    status = json.loads(documents(built).status())
    said = {name: state["why_not"] for name, state in status["groups"].items()}
    assert said == {
        "glm": "not probed yet",
        "mute": "no announced OpenAI endpoint",
        "qwen": "endpoint probe failed: http://10.0.0.2:8000/v1: HTTP 401",
    }
    assert not any(state["healthy"] or state["models"] for state in status["groups"].values())
    assert status["groups"]["glm"]["openai"] == "http://10.0.0.1:8000/v1", "what would be tried first"
    assert status["groups"]["glm"]["probe"] is None
    assert status["groups"]["mute"]["openai"] is None
    assert status["groups"]["mute"]["mcp"] is None
    assert status["groups"]["qwen"]["probe"]["attempts"][0]["error"] == "HTTP 401"


def test_the_address_in_use_stands_beside_all_candidates() -> None:
    both = replace(GLM, candidates=("http://10.0.0.1:8000/v1", "http://192.168.1.1:8000/v1"))
    probes = {"glm": probe(both, "glm-5", at=AT, url="http://192.168.1.1:8000/v1")}
    built = build({"glm": both}, probes, previous=EMPTY, now=AT, fresh_s=18.0)
    status = json.loads(documents(built).status())
    assert status["groups"]["glm"]["openai"] == "http://192.168.1.1:8000/v1"
    assert status["groups"]["glm"]["openai_candidates"] == list(both.candidates)
    assert status["models"]["glm-5"]["url"] == "http://192.168.1.1:8000/v1"


def test_a_model_of_two_groups_names_the_first_and_its_alternates() -> None:
    status = json.loads(documents(table(GLM, QWEN, models={"glm": ("m",), "qwen": ("m",)})).status())
    assert status["models"]["m"] == {
        "group": "glm",
        "url": "http://10.0.0.1:8000/v1",
        "alternates": [{"group": "qwen", "url": "http://10.0.0.2:8000/v1"}],
    }


def test_the_status_of_daemons() -> None:
    fresh = daemon()
    lost = daemon(
        "10.0.0.2:6380",
        connected=False,
        view=None,
        read_at=None,
        error="x",
        events=SimpleNamespace(connected=False),
    )
    status = json.loads(documents(EMPTY, fresh, lost).status())
    assert status["daemons"] == {
        "10.0.0.1:6380": {
            "connected": True,
            "age_s": 1.5,
            "error": None,
            "events": True,
            "source": "seed",
            "trusted": True,
            "node_id": "n1",
            "hostname": "box",
        },
        "10.0.0.2:6380": {
            "connected": False,
            "age_s": None,
            "error": "x",
            "events": False,
            "source": "seed",
            "trusted": True,
            "node_id": "n1",
            "hostname": "",
        },
    }
    assert set(status) == {"version", "uptime_s", "daemons", "groups", "models"}
