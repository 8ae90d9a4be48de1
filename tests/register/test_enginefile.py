"""Several engines in one file."""

from __future__ import annotations

import pytest

from mentatd.errors import SettingsError
from mentatd.options import parse
from mentatd.register.enginefile import MAX_ENGINES, read_file
from mentatd.register.settings import OPTIONS, RegisterSettings
from mentatd.wire.service import PortService, UrlService


def read(text: str, *argv: str, **environ: str) -> tuple[RegisterSettings, ...]:
    return read_file(text, parse("it", "", OPTIONS, argv, environ), hostname="box", head_json="")


def test_what_stands_above_the_engines_holds_for_all() -> None:
    text = """
    address = "10.0.0.1"
    container = "c0"

    [[engine]]
    group = "qwen"
    openai = "8000/v1"
    mcp = "http://10.0.0.1:9000/mcp"
    provider = "vLLM"
    gpus = 2

    [[engine]]
    group = "gemma"
    openai = "8080"
    container = "c1"
    node-ip = "10.0.0.9"
    proto = "0.99"
    """
    assert read(text, MENTAT_DAEMON="10.0.0.7") == (
        RegisterSettings(
            daemon=("10.0.0.1", 6379),
            group="qwen",
            container="c0",
            node_ip="",
            services={"openai": PortService(8000, "/v1"), "mcp": UrlService("http://10.0.0.1:9000/mcp")},
            provider="vllm",
            gpus=2,
            generation="A",
        ),
        RegisterSettings(
            daemon=("10.0.0.1", 6379),
            group="gemma",
            container="c1",
            node_ip="10.0.0.9",
            services={"openai": PortService(8080, "")},
            provider="",
            gpus=0,
            generation="B",
        ),
    )


def test_flags_and_variables_hold_where_the_file_says_nothing() -> None:
    (engine,) = read("[[engine]]\nopenai = '8000'", "--container", "c9", MENTAT_DAEMON="10.0.0.7")
    assert (engine.container, engine.daemon, engine.group) == ("c9", ("10.0.0.7", 6379), "default")


ONE = "[[engine]]\ngroup = 'a'\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[engine]", "not TOML: "),
        ("x = " + "[" * 100_000, "not TOML: "),
        ("", r"it has no \[\[engine\]\]"),
        ("engine = 5", r"it has no \[\[engine\]\]"),
        ("engine = [1]", r"it has no \[\[engine\]\]"),
        ("engine = []", "it has 0 engines"),
        (
            "[[engine]]\n" * (MAX_ENGINES + 1),
            f"it has {MAX_ENGINES + 1} engines; there may be 1 to {MAX_ENGINES}",
        ),
        ("model = 'x'\n" + ONE, "'model' is none of openai, mcp, provider"),
        (ONE + "port = 8000", "engine 1: 'port' is none of openai"),
        (ONE + "openai = true", "engine 1: openai: expected a text or a whole number"),
        (ONE + "openai = ['8000']", "engine 1: openai: expected"),
        (ONE + "openai = 'host:8000'", "engine 1: --openai: 'host:8000' is neither"),
        (ONE + "[[engine]]\ngpus = -1", "engine 2: --gpus='-1'"),
        (ONE + ONE, "engine 2: it has the group and the container of engine 1"),
    ],
)
def test_what_stops_it(text: str, why: str) -> None:
    with pytest.raises(SettingsError, match=f"^{why}"):
        read(text)
