"""What the demonstration is made of."""

from __future__ import annotations

import itertools
from collections import Counter

from mentatd.cluster.sources import LocalNetworks
from mentatd.demo.plan import FLICKER, GEMMA, MODELS, child_environ, introduction, make_plan
from mentatd.lite.settings import OPTIONS as LITE
from mentatd.lite.settings import read_settings as read_lite
from mentatd.options import parse
from mentatd.register.settings import OPTIONS as REGISTER
from mentatd.register.settings import read_settings as read_register
from mentatd.settings import read_settings as read_router
from mentatd.wire.service import PortService, UrlService

PLAN = make_plan(6381, itertools.count(20000))


def of(module: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(p.name, p.arguments) for p in PLAN.programs if p.module == module]


def test_the_programs() -> None:
    assert Counter(p.module for p in PLAN.programs) == {
        "mentatd.cli.serve": 1,
        "mentatd.cli.lite": 2,
        "mentatd.demo.engine": 3,
        "mentatd.cli.register": 3,
    }
    assert len({p.name for p in PLAN.programs}) == 9
    assert PLAN.flicker in PLAN.programs
    assert PLAN.flicker.name == "engine flicker"


def test_the_router_finds_the_daemons_by_their_announcements_alone() -> None:
    (router,) = (p for p in PLAN.programs if p.module == "mentatd.cli.serve")
    settings = read_router(router.environ)
    assert (settings.serve_port, settings.seeds, settings.warnings) == (6381, (), ())
    for _, arguments in of("mentatd.cli.lite"):
        lite = read_lite(parse("lite", "", LITE, arguments, {}), {})
        assert lite.announce_to == (("127.0.0.1", settings.announce_port),)
        assert settings.allowed_sources.allows(lite.bind, LocalNetworks(frozenset()))


def test_each_agent_announces_its_engine_to_the_daemon_of_its_node() -> None:
    daemons = {}
    for _, arguments in of("mentatd.cli.lite"):
        lite = read_lite(parse("lite", "", LITE, arguments, {}), {})
        daemons[lite.bind] = lite.port
    engines = {a[a.index("--model") + 1]: int(a[a.index("--port") + 1]) for _, a in of("mentatd.demo.engine")}
    for (_, arguments), model in zip(of("mentatd.cli.register"), MODELS, strict=True):
        agent = read_register(parse("register", "", REGISTER, arguments, {}), hostname="box", head_json="")
        assert agent.daemon == (model.node, daemons[model.node])
        assert (agent.group, agent.provider, agent.gpus) == (model.name, "vllm", 0)
        port = engines[model.name]
        expected = (
            UrlService(f"http://{model.node}:{port}/v1") if model is FLICKER else PortService(port, "/v1")
        )
        assert agent.services == {"openai": expected}


def test_a_real_engine_joins_the_others() -> None:
    plan = make_plan(6381, itertools.count(20000), (*MODELS, GEMMA))
    (engine,) = (p for p in plan.programs if p.module == "mentatd.demo.llama")
    (agent,) = (p for p in plan.programs if p.name == f"agent {GEMMA.name}")
    said = parse("register", "", REGISTER, agent.arguments, {})
    port = engine.arguments[engine.arguments.index("--port") + 1]
    assert (said["--openai"], said["--provider"]) == (f"{port}/v1", "llamacpp")
    assert len(plan.programs) == len(PLAN.programs) + 2
    told = introduction(plan, "/tmp/logs")
    assert f'"model":"{GEMMA.name}"' in told
    assert GEMMA.about in told


def test_every_port_is_used_once() -> None:
    ports = iter(range(20000, 20008))
    make_plan(6381, ports)
    assert list(ports) == []


def test_nothing_of_the_user_configures_the_programs() -> None:
    environ = {
        "PATH": "p",
        "MENTAT_SECRET": "k",
        "MENTAT_NODE_IP": "x",
        "SERVE_PORT": "1",
        "RAY_ADDRESS": "a",
    }
    assert child_environ(environ) == {"PATH": "p"}


def test_the_introduction_tells_what_to_try() -> None:
    told = introduction(PLAN, "/tmp/logs")
    assert told.count("    curl ") == 3
    assert told.count("http://127.0.0.1:6381/") == 4
    assert "/tmp/logs" in told
    assert all(model.name in told for model in MODELS)
