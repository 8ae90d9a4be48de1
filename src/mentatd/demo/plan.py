"""Which programs make the demonstration, each with what it is told; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mentatd.settings import VARIABLES


@dataclass(frozen=True, slots=True)
class Model:
    """One model of the demonstration."""

    name: str
    """Of the model, and of its group."""
    node: str
    """The address of the node that it runs on."""
    url_form: bool
    """It is announced by a whole URL, and not by its port alone."""
    about: str
    """What a user can expect of it."""
    module: str = "mentatd.demo.engine"
    """The engine that serves it."""
    provider: str = "vllm"
    """What that engine speaks like."""


FLICKER = Model(
    "flicker", "127.0.0.2", True, "comes and goes: its process is stopped, and later started again"
)
MODELS = (
    Model("poet", "127.0.0.1", False, "recites a poem, whatever you say"),
    Model("parrot", "127.0.0.2", False, "repeats what you say"),
    FLICKER,
)
GEMMA = Model(
    "gemma-3-270m", "127.0.0.1", False, "llama.cpp with a small real model", "mentatd.demo.llama", "llamacpp"
)
"""Joins them when the user has it."""


@dataclass(frozen=True, slots=True)
class Program:
    """One process."""

    name: str
    """For people, such as `engine poet`."""
    module: str
    """What `python -m` runs."""
    arguments: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    """Over the environment of the demonstration itself."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole demonstration."""

    programs: tuple[Program, ...]
    """In any order: each waits for what it needs."""
    flicker: Program
    """The engine, one of `programs`, that goes down and comes up."""
    models: tuple[Model, ...]
    """Everything that is served."""
    base: str
    """URL of the router, without a path."""


def make_plan(router_port: int, ports: Iterator[int], models: tuple[Model, ...] = MODELS) -> Plan:
    """Two nodes with a daemon each, an engine with an agent for each of `models`, one router.

    The router has no seed: it finds the daemons by their announcements, which go to a UDP port of their own, so that
    neither another router nor another daemon of this box takes part.
    """
    announce_port = next(ports)
    programs = [_router(router_port, announce_port)]
    controls: dict[str, int] = {}
    for node in dict.fromkeys(model.node for model in models):
        controls[node] = next(ports)
        programs.append(_daemon(node, controls[node], next(ports), announce_port))
    engines = {}
    for model in models:
        port = next(ports)
        engines[model.name] = _engine(model, port)
        programs += (engines[model.name], _agent(model, port, controls[model.node]))
    return Plan(tuple(programs), engines[FLICKER.name], models, f"http://127.0.0.1:{router_port}")


def child_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of the demonstration without what would configure its programs."""
    ours = {variable.name for variable in VARIABLES} | {"SERVICE_NAME", "CONTAINER_NAME", "RAY_ADDRESS"}
    return {n: value for n, value in environ.items() if n not in ours and not n.startswith("MENTAT_")}


def introduction(plan: Plan, logs: str) -> str:
    """What a user reads when everything runs."""
    width = max(len(model.name) for model in plan.models) + 2
    rows = [f"    node {model.node}   {model.name:<{width}}{model.about}" for model in plan.models]
    asked = GEMMA if GEMMA in plan.models else plan.models[0]
    question = _QUESTION.replace("MODEL", asked.name)
    return _INTRODUCTION.format(base=plan.base, models="\n".join(rows), question=question, logs=logs)


_QUESTION = '{"model":"MODEL","stream":true,"messages":[{"role":"user","content":"hello"}]}'

_INTRODUCTION = """\
A cluster of two nodes runs on this machine, and one address serves all of its models:

{models}

  See what the router carries:   {base}/
  Try, in another terminal:

    curl -s {base}/v1/models
    curl -sN {base}/v1/chat/completions -d '{question}'
    curl -s {base}/status.json

  The logs of all programs are in {logs}. Ctrl-C ends everything.
"""


def _router(port: int, announce_port: int) -> Program:
    return Program(
        "router",
        "mentatd.cli.serve",
        environ={
            "SERVE_PORT": str(port),
            "MENTAT_DAEMONS": "",
            "MENTAT_ANNOUNCE_PORT": str(announce_port),
            "ALLOWED_SOURCES": "127.0.0.0/8,::1",
            "PROBE_INTERVAL_S": "1",
            "PROBE_TIMEOUT_S": "1",
            "DRAIN_S": "1",
        },
    )


def _daemon(node: str, control: int, http: int, announce_port: int) -> Program:
    arguments = {
        "--bind": node,
        "--port": control,
        "--http-port": http,
        "--announce-port": announce_port,
        "--announce-addr": "127.0.0.1",
        "--announce-interval": 0.5,
    }
    return Program(f"daemon {node}", "mentatd.cli.lite", _flat(arguments))


def _engine(model: Model, port: int) -> Program:
    arguments = {"--model": model.name, "--host": model.node, "--port": port}
    return Program(f"engine {model.name}", model.module, _flat(arguments))


def _agent(model: Model, port: int, control: int) -> Program:
    arguments = {
        "--address": f"{model.node}:{control}",
        "--group": model.name,
        "--container": model.name,
        "--openai": f"http://{model.node}:{port}/v1" if model.url_form else f"{port}/v1",
        "--provider": model.provider,
    }
    return Program(f"agent {model.name}", "mentatd.cli.register", _flat(arguments))


def _flat(arguments: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(str(part) for pair in arguments.items() for part in pair)
