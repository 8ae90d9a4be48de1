"""Hypothesis strategies for the values of `mentatd.wire`."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from mentatd.wire.hostport import join
from mentatd.wire.machine import Gpu, Machine
from mentatd.wire.service import Announced, PortService, Service, UrlService
from mentatd.wire.snapshot import Actor, ActorState, Agent, GroupView, Peer, View
from mentatd.wire.version import Generation

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
numbers = st.integers(0, 2**63 - 1)
generations: st.SearchStrategy[Generation] = st.sampled_from(("A", "B"))

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
"""Any JSON, with what only lenient writers make: NaN, lone surrogates, endless whole numbers."""

_paths = st.sampled_from(("", "/v1", "/a/b", "/mcp%20x"))
port_services = st.builds(PortService, st.integers(1, 65535), _paths)
plain_urls = st.builds(
    lambda host, port, path: UrlService(f"http://{host}:{port}{path}"),
    st.sampled_from(("10.0.0.1", "llm.example", "[fd00::1]")),
    st.integers(1, 65535),
    st.sampled_from(("", "/", "/v1", "/v1/", "/mcp?token=1")),
)
"""The URLs that generation B can say."""
odd_urls = st.sampled_from(("https://llm.example/v1", "http://llm.example/v1", "http://llm.example?x")).map(
    UrlService
)


@st.composite
def announced(draw: st.DrawFn, generation: Generation) -> Announced:
    """What an agent says, as far as the generation can say it."""
    forms: st.SearchStrategy[Service] = port_services | plain_urls
    if generation == "A":
        forms |= odd_urls
    services = draw(st.dictionaries(st.sampled_from(("openai", "mcp", "x")), forms))
    notes = draw(st.dictionaries(st.sampled_from(("openai", "mcp", "x")), names))
    provider = draw(st.sampled_from(("", "vllm", "llama.cpp")))
    if generation == "B":
        notes = {name: note for name, note in notes.items() if name in services}
        provider = provider if "openai" in services else ""
    return Announced(services, notes, provider)


gpus = st.builds(Gpu, numbers, st.just("nvidia"), texts, numbers, st.booleans())


@st.composite
def machines(draw: st.DrawFn, generation: Generation) -> Machine:
    """Hardware, as far as the generation can say it."""
    if generation == "B":
        return draw(st.builds(Machine, numbers, numbers, st.lists(gpus, max_size=3).map(tuple)))
    vendor = draw(texts)
    plain = st.builds(Gpu, numbers, st.just(vendor))
    return Machine(cpus=draw(numbers), gpus=tuple(draw(st.lists(plain, max_size=3))))


@st.composite
def agents(draw: st.DrawFn, generation: Generation) -> Agent:
    said = draw(announced(generation))
    return Agent(
        id=draw(names),
        node_ip=draw(texts),
        node_id=draw(texts),
        container=draw(texts),
        alive=draw(st.booleans()),
        degraded=draw(st.booleans()),
        gpus=draw(st.integers(0, 4)),
        provider=said.provider,
        services=said.services,
        notes=said.notes,
    )


@st.composite
def actors(draw: st.DrawFn) -> Actor:
    states: tuple[ActorState, ...] = ("spawning", "running", "dead", "other")
    state = draw(st.sampled_from(states))
    reason = {"dead": draw(texts), "other": draw(st.sampled_from(("", "draining", "dead(x)")))}.get(state, "")
    return Actor(draw(names), draw(texts), draw(texts), state, reason)


@st.composite
def peers(draw: st.DrawFn, generation: Generation) -> Peer:
    """A mesh peer, its control address as far as the generation can say it."""
    node_ip = draw(st.sampled_from(("", "10.0.0.1", "fd00::1", "node1")))
    port = draw(st.integers(0, 65535)) if node_ip else 0
    own = join(node_ip, port) if port else ""
    return Peer(
        node_id=draw(names),
        node_ip=node_ip,
        link_ip=draw(texts),
        addrs=tuple(draw(st.lists(names, max_size=2))),
        http_port=draw(st.integers(0, 65535)),
        alive=draw(st.booleans()),
        stale=draw(st.booleans()),
        control_addr=own if generation == "B" else draw(texts),
    )


@st.composite
def views(draw: st.DrawFn) -> View:
    generation = draw(generations)

    def table(rows: st.SearchStrategy[Any], key: str) -> Any:
        listed = draw(st.lists(rows, max_size=2, unique_by=lambda row: getattr(row, key)))
        return tuple(sorted(listed, key=lambda row: getattr(row, key)))

    return View(
        generation=generation,
        node_id=draw(texts),
        node_ip=draw(texts),
        hostname=draw(texts),
        addrs=tuple(draw(st.lists(names, max_size=3))),
        peers=table(peers(generation), "node_id"),
        groups={
            name: GroupView(table(agents(generation), "id"), table(actors(), "id"), draw(numbers))
            for name in draw(st.lists(names, max_size=2, unique=True))
        },
    )
