"""Endpoints in both forms and both generations."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.strategies import announced, generations, json_values

from mentatd.wire.fields import Fields
from mentatd.wire.service import (
    Announced,
    PortService,
    Service,
    UrlService,
    base_url,
    has_generation_b_form,
    parse_announced,
    read_services,
    write_services,
)
from mentatd.wire.version import Generation


@pytest.mark.parametrize(
    ("text", "service"),
    [
        ("8000/v1", PortService(8000, "/v1")),
        (" 8000/v1/ ", PortService(8000, "/v1")),
        ("8000", PortService(8000, "")),
        ("8000/", PortService(8000, "")),
        ("http://0.0.0.0:8000/v1", PortService(8000, "/v1")),
        ("http://[::]:8000/v1", PortService(8000, "/v1")),
        ("HTTP://[0:0::0]:8000/v1/", PortService(8000, "/v1")),
        ("http://0.0.0.0/v1", PortService(80, "/v1")),
        ("http://10.0.0.1:8000/v1", UrlService("http://10.0.0.1:8000/v1")),
        ("http://10.0.0.1:8000/v1/", UrlService("http://10.0.0.1:8000/v1/")),
        ("http://[fd00::1]:8000/v1", UrlService("http://[fd00::1]:8000/v1")),
        ("http://[fe80::1%eth0]:8000", UrlService("http://[fe80::1%eth0]:8000")),
        ("https://llm.example/v1", UrlService("https://llm.example/v1")),
        ("http://llm.example?x=1", UrlService("http://llm.example?x=1")),
    ],
)
def test_what_an_operator_writes(text: str, service: Service) -> None:
    assert parse_announced(text) == service


@pytest.mark.parametrize(
    "text",
    [
        "", "v1", "0/v1", "65536/v1", "123456", "8000v1", ":8000/v1", "localhost:8000/v1", "８000/v1",
        "8000/v 1", "8000/v1#x", "ftp://10.0.0.1/v1", "http://", "http:///v1", "http://10.0.0.1:0/v1", "http://10.0.0.1:65536",
        "http://user:secret@10.0.0.1/v1", "http://10.0.0.1/v1\r\nX: y", "http://[::g]/v1", "http://[1:2]/v1",
        "http://10.0.0.1/ü", "https://0.0.0.0:8000/v1", "http://0.0.0.0?x", "http://10.0.0.1:8000v1",
    ],
)  # fmt: skip
def test_anything_else_says_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match=r"is neither like 8000/v1 nor like http://10\.0\.0\.1:8000/v1"):
        parse_announced(text)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("10.0.0.1", "http://10.0.0.1:8000/v1"),
        ("node1", "http://node1:8000/v1"),
        ("fd00::1", "http://[fd00::1]:8000/v1"),
        ("[fd00::1]", "http://[fd00::1]:8000/v1"),
    ],
)
def test_a_port_becomes_a_base_at_a_host(host: str, url: str) -> None:
    assert base_url(PortService(8000, "/v1"), host) == url


@pytest.mark.parametrize(
    ("row", "service"),
    [
        # generation A
        ({"services": {"openai": "http://10.0.0.1:8000/v1"}}, UrlService("http://10.0.0.1:8000/v1")),
        ({"services_ports": {"openai": {"port": 8000, "path": "/v1"}}}, PortService(8000, "/v1")),
        ({"services_ports": {"openai": {"port": 8000, "path": "v1/"}}}, PortService(8000, "/v1")),
        ({"services_ports": {"openai": {"port": 8000}}}, PortService(8000, "")),
        ({"services_ports": [{"name": "openai", "port": 9000, "path": "/v1"}]}, PortService(9000, "/v1")),
        ({"services": {"openai": "https://x/v1"}, "services_ports": {"openai": {"port": 1}}},
         UrlService("https://x/v1")),
        ({"services": {"openai": ""}, "services_ports": {"openai": {"port": 8000}}}, PortService(8000, "")),
        # generation B
        ({"services": {"openai": {"host": "", "port": 8000, "path": "/v1"}}}, PortService(8000, "/v1")),
        ({"services": {"openai": {"port": 8000}}}, PortService(8000, "")),
        ({"services": {"openai": {"host": "10.0.0.1", "port": 8000, "path": "/v1/"}}},
         UrlService("http://10.0.0.1:8000/v1/")),
        ({"services": {"openai": {"host": "fd00::1", "port": 80}}}, UrlService("http://[fd00::1]:80")),
        ({"services": {"openai": {"host": "[fd00::1]", "port": 80}}}, UrlService("http://[fd00::1]:80")),
        # neither
        ({}, None),
        ({"services": None, "services_ports": None, "service_notes": None, "provider": None}, None),
    ],
)  # fmt: skip
def test_rows_of_both_generations(row: dict[str, Any], service: Service | None) -> None:
    fields = Fields(row)
    assert read_services(fields).services == ({"openai": service} if service else {})
    assert fields.problems() == ()


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ({"services": []}, "services"),
        ({"services": {"openai": 8000}}, "services.openai"),
        ({"services": {"openai": "10.0.0.1:8000"}}, "services.openai"),
        ({"services": {"openai": {"host": "a b", "port": 80}}}, "services.openai.host"),
        ({"services": {"openai": {"host": "x"}}}, "services.openai.port"),
        ({"services": {"openai": {}}}, "services.openai.port"),
        ({"services": {"openai": {"port": 80, "path": "/a b"}}}, "services.openai.path"),
        ({"services_ports": {"openai": {"port": 65536}}}, "services_ports.openai.port"),
        ({"services_ports": {"openai": 8000}}, "services_ports.openai"),
        ({"service_notes": {"openai": 1}}, "service_notes.openai"),
        ({"provider": 1}, "provider"),
    ],
)
def test_what_is_wrong_is_reported_and_the_rest_is_kept(row: dict[str, Any], path: str) -> None:
    row.setdefault("services_ports", {})["mcp"] = {"port": 9000, "path": "/mcp"}
    fields = Fields(row)
    assert read_services(fields).services == {"mcp": PortService(9000, "/mcp")}
    assert [problem.path for problem in fields.problems()] == [path]


@pytest.mark.parametrize(
    ("row", "notes", "provider"),
    [
        (
            {"service_notes": {"openai": "bound", "mcp": ""}, "provider": " vLLM "},
            {"openai": "bound"},
            "vllm",
        ),
        (
            {"services": {"openai": {"port": 80, "note": "bound", "provider": "vLLM"}}},
            {"openai": "bound"},
            "vllm",
        ),
        ({"services": {"mcp": {"port": 80, "note": "", "provider": "vllm"}}}, {}, ""),
        ({"services": {"openai": {"port": 80, "provider": "b"}}, "provider": "a"}, {}, "a"),
    ],
)
def test_notes_and_provider(row: dict[str, Any], notes: dict[str, str], provider: str) -> None:
    found = read_services(Fields(row))
    assert (found.notes, found.provider) == (notes, provider)


@given(st.data(), generations)
def test_what_is_written_reads_the_same(data: st.DataObject, generation: Generation) -> None:
    said = data.draw(announced(generation))
    fields = Fields(write_services(said, generation))
    assert read_services(fields) == said
    assert fields.problems() == ()


def test_generation_a_keeps_the_forms_apart() -> None:
    said = Announced(
        {"openai": UrlService("https://x/v1"), "mcp": PortService(9000, "/mcp")}, {"mcp": "bound"}, "vllm"
    )
    assert write_services(said, "A") == {
        "services": {"openai": "https://x/v1"},
        "services_ports": {"mcp": {"port": 9000, "path": "/mcp"}},
        "service_notes": {"mcp": "bound"},
        "provider": "vllm",
    }


def test_generation_b_puts_all_of_a_service_into_one_object() -> None:
    services: dict[str, Service] = {
        "openai": UrlService("http://[fd00::1]/v1"),
        "mcp": PortService(9000, "/mcp"),
    }
    said = Announced(services, {"mcp": "bound", "gone": "lost"}, "vllm")
    assert write_services(said, "B") == {
        "services": {
            "openai": {"host": "[fd00::1]", "port": 80, "path": "/v1", "provider": "vllm", "note": ""},
            "mcp": {"host": "", "port": 9000, "path": "/mcp", "provider": "", "note": "bound"},
        }
    }


@pytest.mark.parametrize(
    ("service", "can"),
    [
        (PortService(8000, ""), True),
        (UrlService("http://llm.example/v1"), True),
        (UrlService("https://llm.example/v1"), False),
        (UrlService("http://llm.example?x"), False),
    ],
)
def test_what_generation_b_cannot_say_is_an_error(service: Service, can: bool) -> None:
    assert has_generation_b_form(service) is can
    said = Announced({"openai": service}, {}, "")
    if can:
        write_services(said, "B")
    else:
        with pytest.raises(ValueError, match=r"cannot be announced as 0\.99"):
            write_services(said, "B")


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(
    ("services", "services_ports", "service_notes", "provider"),
    json_values | st.dictionaries(st.sampled_from(("openai", "mcp")), json_values | st.fixed_dictionaries(
        {}, optional={"host": json_values, "port": st.integers(-1, 70000), "path": json_values},
    )),
)))  # fmt: skip
def test_any_row_gives_services_that_can_be_written_again(row: dict[str, Any]) -> None:
    said = read_services(Fields(row))
    assert read_services(Fields(write_services(said, "A"))) == said
