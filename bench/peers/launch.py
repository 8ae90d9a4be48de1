"""How each peer is started in front of the bench's engine: as its own documentation says for the least overhead.

Each gets one worker, keeps its connections to the engine, streams without a buffer, writes no log of requests and
checks the engine's health as it does by default; retries are off where they can be, since there is one engine.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.interop import published

from bench.answers import MODEL
from bench.peers.install import program
from bench.programs import Program, Running, free_port, process, ready
from bench.router import daemon, settings


@contextmanager
def _forwarding(
    command: Path,
    options: Sequence[str],
    folder: Path,
    port: int,
    cores: str,
    *,
    env: Mapping[str, str] | None = None,
    loose: bool = False,
    prefix: str = "",
) -> Iterator[Running]:
    """A program that was told to listen on `port`, once it forwards."""
    with process([str(command), *options], folder / "peer.log", cores, env) as running:
        yield ready(running, port, loose=loose, prefix=prefix)


def _written(folder: Path, name: str, **values: object) -> str:
    """The path of a configuration, written from the template of this name."""
    template = string.Template(Path(__file__).with_name(name).read_text())
    file = folder / name
    file.write_text(template.substitute(values, model=MODEL))
    return str(file)


def _base(engine_port: int) -> str:
    return f"http://127.0.0.1:{engine_port}"


def router(peer: str, *before: str, quiet: str, loose: bool = False) -> Program:
    """One of the three Rust routers, whose options have a common origin.

    `before`: what stands before the options; `quiet`: its name for the log level that tells of no request;
    `loose`: as in Peer.
    """

    def start(folder: Path, engine_port: int, cores: str) -> AbstractContextManager[Running]:
        port = free_port()
        options = [
            *(*before, "--host", "127.0.0.1", "--port", str(port)),
            *("--worker-urls", _base(engine_port), "--policy", "round_robin", "--disable-retries"),
            *("--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port())),
            # how soon the engine is seen at the start; later it is looked at as by default
            *("--worker-startup-check-interval", "1", "--log-level", quiet),
        ]
        return _forwarding(program(peer, peer), options, folder, port, cores, loose=loose)

    return start


@contextmanager
def follow_published(folder: Path, daemons: Sequence[str], model: str, cores: str) -> Iterator[Running]:
    """The published mentatd-serve over these daemons."""
    port = free_port()
    command = str(published.program(published.NEWEST, "mentatd-serve"))
    with process([command], folder / "peer.log", cores, settings(port, daemons)) as running:
        yield ready(running, port, model=model)


@contextmanager
def serve_published(folder: Path, engine_port: int, cores: str) -> Iterator[Running]:
    """The published mentatd-serve, which finds the engine as ours does."""
    with daemon(folder, engine_port) as address, follow_published(folder, [address], MODEL, cores) as running:
        yield running


def production_stack(folder: Path, engine_port: int, cores: str) -> AbstractContextManager[Running]:
    """vLLM production-stack's router with a fixed engine."""
    port = free_port()
    options = [
        *("--host", "127.0.0.1", "--port", str(port), "--log-level", "error"),
        *("--service-discovery", "static", "--static-backends", _base(engine_port)),
        *("--static-models", MODEL, "--routing-logic", "roundrobin"),
    ]
    return _forwarding(program("production-stack", "vllm-router"), options, folder, port, cores)


def litellm(folder: Path, engine_port: int, cores: str) -> AbstractContextManager[Running]:
    """LiteLLM's proxy, whose answers say in its own words what the engine said."""
    port = free_port()
    options = [
        *("--config", _written(folder, "litellm.yaml", engine=engine_port)),
        *("--host", "127.0.0.1", "--port", str(port), "--num_workers", "1", "--telemetry", "False"),
        # else its server closes a connection that was idle for 5 s
        *("--keepalive_timeout", "300"),
    ]
    env = {
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOG": "ERROR",
        # the prices of models come with it; it would ask the network for newer ones
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    command = program("litellm", "litellm")
    return _forwarding(command, options, folder, port, cores, env=env, loose=True)


def llama_swap(folder: Path, engine_port: int, cores: str) -> AbstractContextManager[Running]:
    """llama-swap with the engine as what it calls a peer: one that it does not start itself."""
    port = free_port()
    options = [
        *("-config", _written(folder, "llama-swap.yaml", engine=engine_port)),
        *("-listen", f"127.0.0.1:{port}"),
    ]
    return _forwarding(program("llama-swap", "llama-swap"), options, folder, port, cores)


def olla(folder: Path, engine_port: int, cores: str) -> AbstractContextManager[Running]:
    """Olla, which serves OpenAI's paths below a prefix of its own."""
    port = free_port()
    options = ["-c", _written(folder, "olla.yaml", engine=engine_port, port=port)]
    # else it keeps a log in the working folder
    env = {"OLLA_FILE_OUTPUT": "false"}
    command = program("olla", "olla")
    return _forwarding(command, options, folder, port, cores, env=env, prefix="/olla/openai")
