"""What tells an engine, and when it is announced."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.errors import SettingsError
from mentatd.register import engines
from mentatd.register.engines import FORGET_S, USUAL_PORTS, Announced, Engine, Listing, Next, decide

QWEN, GEMMA = Engine("qwen", "vllm"), Engine("gemma", "llamacpp")


@pytest.mark.parametrize(
    ("text", "ports"), [("usual", USUAL_PORTS), ("8000", (8000,)), ("8000, 9000,8000,", (8000, 9000))]
)
def test_which_ports(text: str, ports: tuple[int, ...]) -> None:
    assert engines.read_ports(text) == ports


@pytest.mark.parametrize("text", [",", "vllm", "0", "65536", "8000-9000"])
def test_what_is_no_port(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^--discover="):
        engines.read_ports(text)


@pytest.mark.parametrize(
    ("document", "listing"),
    [
        ({"data": [{"id": "a", "owned_by": "vllm"}, {"id": "b"}]}, Listing("a", "vllm")),
        ({"data": [{"id": "a"}]}, Listing("a", "")),
        ({"data": [{"id": "a", "owned_by": 5}]}, Listing("a", "")),
        ({"data": [{"id": ""}]}, None),
        ({"data": []}, None),
        ({"data": [5]}, None),
        ({}, None),
        ([], None),
    ],
)
def test_listings(document: object, listing: Listing | None) -> None:
    assert engines.read_listing(json.dumps(document).encode()) == listing


@given(st.binary())
def test_any_body_is_a_listing_or_none(body: bytes) -> None:
    engines.read_listing(body)
    assert not engines.is_router(body)


@pytest.mark.parametrize(
    ("owner", "provider"),
    [
        ("vllm", "vllm"),
        ("sglang", "sglang"),
        ("llamacpp", "llamacpp"),
        ("library", "ollama"),
        ("organization_owner", "lmstudio"),
        ("somebody", ""),
        ("", ""),
    ],
)
def test_who_writes_which_owner(owner: str, provider: str) -> None:
    assert engines.owner_provider(Listing("a", owner)) == provider


@pytest.mark.parametrize(
    ("model", "provider", "name"),
    [
        ("Qwen/Qwen3-8B", "vllm", "Qwen3-8B"),
        ("/models/gemma 3 270m.gguf", "llamacpp", "gemma-3-270m"),
        ("llama3.2:3b", "ollama", "ollama"),
        ("x", "lmstudio", "lmstudio"),
        ("llama3.2:3b", "", "llama3.2-3b"),
        ("\u4f60\u597d", "vllm", "engine-8000"),
        ("x" * 100, "", "x" * 64),
    ],
)
def test_what_an_engine_is_called(model: str, provider: str, name: str) -> None:
    assert engines.engine(Listing(model, ""), provider, 8000) == Engine(name, provider)


def test_what_a_router_is() -> None:
    assert engines.is_router(b'{"daemons":{},"groups":{},"uptime_s":1}')
    assert not engines.is_router(b'{"groups":{}}')
    assert engines.is_version(b'{"version":"0.11.0"}')
    assert not engines.is_version(b"")


def test_an_engine_is_announced_as_long_as_it_is_there() -> None:
    first = decide({}, {8000: QWEN, 8080: None}, 0.0)
    assert first == Next({8000: Announced(QWEN, "qwen")}, (8000,), ())
    # it does not answer for a while: it is still announced
    assert decide(first.announced, {8000: None}, 5.0) == Next(first.announced, (), ())
    gone = decide(first.announced, {}, 10.0)
    assert gone == Next({8000: Announced(QWEN, "qwen", gone_since_s=10.0)}, (), ())
    assert decide(gone.announced, {8000: QWEN}, 20.0) == Next(first.announced, (), ())
    assert decide(gone.announced, {}, 9.9 + FORGET_S) == Next(gone.announced, (), ())
    assert decide(gone.announced, {}, 10.0 + FORGET_S) == Next({}, (), (8000,))


def test_another_engine_on_a_port_takes_the_place_of_the_first() -> None:
    before = decide({}, {8000: QWEN}, 0.0).announced
    assert decide(before, {8000: GEMMA}, 5.0) == Next({8000: Announced(GEMMA, "gemma")}, (8000,), (8000,))


def test_two_engines_of_one_model_are_two_groups() -> None:
    both = decide({}, {8000: QWEN, 8001: QWEN}, 0.0)
    assert [known.group for known in both.announced.values()] == ["qwen", "qwen-8001"]
    assert decide(both.announced, {8000: QWEN, 8001: QWEN}, 5.0) == Next(both.announced, (), ())
