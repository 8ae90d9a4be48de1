"""The other routers that `make bench-all` measures; peers.md tells how each was had and why it is set as it is."""

from __future__ import annotations

from tests.interop import published

from bench.peers import launch
from bench.peers.install import program, release, told_version
from bench.programs import Peer


def _rust(name: str, what: str, *before: str, quiet: str, loose: bool = False) -> Peer:
    return Peer(
        name,
        what,
        lambda: release(name, name),
        launch.router(name, *before, quiet=quiet, loose=loose),
        program(name, name).exists,
        loose=loose,
    )


_OLLA_FULL = (
    "it opens 50 connections to an engine at most, which no setting raises: more streams wait for each other"
)
_LITELLM_LATE = "a chunk takes it more than half a millisecond (W3): 200 of them do not fit into 20 ms"

PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer(
            "mentatd-serve-rust",
            "Rust; the published mentatd-serve",
            lambda: published.NEWEST,
            launch.serve_published,
            published.program(published.NEWEST, "mentatd-serve").exists,
            cluster=launch.follow_published,
        ),
        _rust("vllm-router", "Rust; vLLM's router", quiet="warning", loose=True),
        _rust("sglang-router", "Rust; SGLang's router", "launch", quiet="warn", loose=True),
        _rust("smg", "Rust; Shepherd Model Gateway, a router for several engines", "launch", quiet="warn"),
        Peer(
            "llama-swap",
            "Go; a router that starts and stops engines",
            lambda: told_version(program("llama-swap", "llama-swap"), "-version"),
            launch.llama_swap,
            program("llama-swap", "llama-swap").exists,
        ),
        Peer(
            "olla",
            "Go; a router and balancer for local engines",
            lambda: told_version(program("olla", "olla"), "--version"),
            launch.olla,
            program("olla", "olla").exists,
            cannot=dict.fromkeys(("W4", "W4k", "W5"), _OLLA_FULL),
        ),
        Peer(
            "production-stack",
            "Python; the router of vLLM's production stack",
            lambda: release("production-stack", "vllm-router"),
            launch.production_stack,
            program("production-stack", "vllm-router").exists,
            cannot={"W6": "it closes a connection that was idle for 5 s, which no option changes"},
        ),
        Peer(
            "litellm",
            "Python; LiteLLM's proxy, which translates between many APIs",
            lambda: release("litellm", "litellm"),
            launch.litellm,
            program("litellm", "litellm").exists,
            cannot=dict.fromkeys(("W4", "W4k"), _LITELLM_LATE),
            loose=True,
        ),
    )
}
"""By name, in the order of the report."""
