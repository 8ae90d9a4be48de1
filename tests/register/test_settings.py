"""What an agent announces and to whom, from flags and environment."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mentatd.errors import SettingsError
from mentatd.options import Option, parse
from mentatd.register.settings import (
    CONFIG,
    DISCOVER,
    OPTIONS,
    RegisterSettings,
    check_alone,
    found_settings,
    read_settings,
    registration,
)
from mentatd.wire.machine import Gpu, Machine
from mentatd.wire.messages import AgentRegister
from mentatd.wire.service import PortService, UrlService

DOCS = Path(__file__).parents[2] / "docs" / "register.md"


def read(*argv: str, head_json: str = "", **environ: str) -> RegisterSettings:
    return read_settings(parse("it", "", OPTIONS, argv, environ), hostname="box", head_json=head_json)


@pytest.mark.parametrize("option", [DISCOVER, CONFIG])
@pytest.mark.parametrize(
    "said", ["--discover=1", "--config=x", "--openai=8000", "--mcp=9000", "--provider=vllm", "--group=glm"]
)
def test_who_finds_engines_itself_is_not_told_of_one(option: Option, said: str) -> None:
    values = parse("it", "", OPTIONS, [f"{option.name}=2", said], {})
    if said.startswith(option.name):
        check_alone(values, option)
    else:
        with pytest.raises(SettingsError, match=f"{option.name} and {said.partition('=')[0]}"):
            check_alone(values, option)


def test_a_found_engine_takes_what_is_said_of_all() -> None:
    shared = read("--container", "c0", "--address", "10.0.0.2")
    found = found_settings(shared, 8080, "gemma", "llamacpp")
    assert (found.daemon, found.container) == (("10.0.0.2", 6379), "c0")
    assert (found.group, found.provider) == ("gemma", "llamacpp")
    assert found.services == {"openai": PortService(8080, "/v1")}


def test_nothing_said() -> None:
    assert read() == RegisterSettings(
        daemon=("127.0.0.1", 6379),
        group="default",
        container="box",
        node_ip="",
        services={},
        provider="",
        gpus=0,
        generation="A",
    )


def test_everything_said_by_the_environment() -> None:
    settings = read(
        MENTAT_GROUP="glm",
        SERVICE_NAME="other",
        MENTAT_OPENAI_API="8000/v1",
        MENTAT_MCP_API="http://10.0.0.9:9000/mcp",
        MENTAT_MODEL_PROVIDER=" vLLM ",
        CONTAINER_NAME="c0",
        MENTAT_NODE_IP="10.0.0.1",
        MENTAT_DAEMON="10.0.0.2",
        MENTAT_GPUS="2",
    )
    assert settings == RegisterSettings(
        daemon=("10.0.0.2", 6379),
        group="glm",
        container="c0",
        node_ip="10.0.0.1",
        services={"openai": PortService(8000, "/v1"), "mcp": UrlService("http://10.0.0.9:9000/mcp")},
        provider="vllm",
        gpus=2,
        generation="A",
    )
    assert settings.ports == {"openai": 8000}


def test_flags_go_before_the_environment() -> None:
    settings = read(
        "--group", "a", "--openai", "9000", "--proto", "0.99", MENTAT_GROUP="b", MENTAT_OPENAI_API="8000"
    )
    assert settings.group == "a"
    assert settings.services == {"openai": PortService(9000, "")}
    assert settings.generation == "B"


def test_the_group_falls_back_to_the_service() -> None:
    assert read(SERVICE_NAME="glm").group == "glm"


@pytest.mark.parametrize(
    ("argv", "environ", "head_json", "daemon"),
    [
        (("--address", "a:1"), {"MENTAT_DAEMON": "d:2", "RAY_ADDRESS": "r:3"}, '{"address":"h:4"}', ("d", 2)),
        (("--address", "a:1"), {"RAY_ADDRESS": "r:3"}, '{"address":"h:4"}', ("a", 1)),
        ((), {"RAY_ADDRESS": "r:3"}, '{"address":"h:4"}', ("r", 3)),
        ((), {}, '{"address":"h:4"}', ("h", 4)),
        ((), {}, '{"address":"[fd00::1]:4"}', ("fd00::1", 4)),
        ((), {}, "not json", ("127.0.0.1", 6379)),
        ((), {}, "[]", ("127.0.0.1", 6379)),
        ((), {}, '{"address":7}', ("127.0.0.1", 6379)),
        ((), {}, '{"address":""}', ("127.0.0.1", 6379)),
    ],
)
def test_which_daemon(
    argv: tuple[str, ...], environ: dict[str, str], head_json: str, daemon: tuple[str, int]
) -> None:
    assert read(*argv, head_json=head_json, **environ).daemon == daemon


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (("--openai", "host:8000/v1"), "--openai"),
        (("--mcp", "ftp://x/mcp"), "--mcp"),
        (("--gpus", "many"), "--gpus"),
        (("--group", "a\nb"), "--group"),
        (("--container", "\udcff"), "--container"),
        (("--provider", "x" * 201), "--provider"),
        (("--address", "http://x"), "--address"),
        (("--proto", "1.0"), "--proto"),
        (("--proto", "0.99", "--openai", "https://x/v1"), "--openai"),
    ],
)
def test_what_stops_it(argv: tuple[str, ...], named: str) -> None:
    with pytest.raises(SettingsError, match=f"^{named}"):
        read(*argv)


def test_the_opening_frame() -> None:
    settings = read("--group", "glm", "--container", "c0", "--openai", "8000/v1", "--gpus", "1")
    frame: Any = registration(settings, {"openai": "bound", "mcp": ""}, pid=4, cpus=2, memory=1)
    assert frame == AgentRegister(
        generation="A",
        req=1,
        agent_id="glm@c0@",
        group="glm",
        container="c0",
        pid=4,
        machine=Machine(cpus=2, memory=1, gpus=(Gpu(0),)),
        services={"openai": PortService(8000, "/v1")},
        notes={"openai": "bound"},
    )


def test_the_page_has_a_row_for_each_option() -> None:
    rows = set(re.findall(r"^\| (\S+ ?/? ?\S*?) \|", DOCS.read_text().replace("`", ""), re.MULTILINE))
    names = {" / ".join(filter(None, (f"--{o.flag}" if o.flag else "", o.variable))) for o in OPTIONS}
    assert names <= rows
