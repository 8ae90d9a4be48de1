"""The router's variables: defaults, rules, the help screen and the page that documents them."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.cluster.sources import AllowedSources
from mentatd.errors import SettingsError
from mentatd.settings import VARIABLES, Settings, help_text, read_settings

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"

DEFAULTS = Settings(
    serve_port=6381,
    seeds=(("127.0.0.1", 6380),),
    announce_port=6382,
    allowed_sources=AllowedSources(("10.100.0.", "192.168.1.", "127.0.0.1", "::1", "172.")),
    discover_peers=True,
    poll_interval_s=10.0,
    probe_interval_s=5.0,
    probe_timeout_s=3.0,
    probe_fresh_s=18.0,
    probe_promote_s=30.0,
    serving_timeout_s=1800.0,
    mcp_timeout_s=180.0,
    tools_ttl_s=60.0,
    secret=None,
    universe="default",
    drain_s=30.0,
    sse_keepalive_s=10.0,
    client_timeout_s=60.0,
    max_connections=4096,
    body_memory_mib=1024,
    engine_api_key=None,
    cors_allow_origins=frozenset(),
)


def test_an_unset_variable_takes_its_default() -> None:
    assert read_settings({}) == DEFAULTS


def test_an_empty_variable_takes_its_default() -> None:
    environ = {variable.name: "" for variable in VARIABLES if variable.name != "MENTAT_DAEMONS"}
    assert read_settings(environ) == DEFAULTS


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("SERVE_PORT", "8080", "serve_port", 8080),
        ("SERVE_PORT", "0", "serve_port", 0),
        ("MENTAT_ANNOUNCE_PORT", "0", "announce_port", 0),
        ("MENTAT_ANNOUNCE_PORT", "65535", "announce_port", 65535),
        ("ALLOWED_SOURCES", "10., local", "allowed_sources", AllowedSources(("10.", "local"))),
        ("ALLOWED_SOURCES", ",", "allowed_sources", AllowedSources(())),
        ("DISCOVER_PEERS", "1", "discover_peers", True),
        ("DISCOVER_PEERS", "0", "discover_peers", False),
        ("DISCOVER_PEERS", "true", "discover_peers", False),
        ("DISCOVER_PEERS", " 1", "discover_peers", False),
        ("POLL_INTERVAL_S", "0.5", "poll_interval_s", 0.5),
        ("PROBE_FRESH_S", "7", "probe_fresh_s", 7.0),
        ("PROBE_PROMOTE_S", "7", "probe_promote_s", 7.0),
        ("SERVING_TIMEOUT_S", "7", "serving_timeout_s", 7.0),
        ("MCP_TIMEOUT_S", "7", "mcp_timeout_s", 7.0),
        ("TOOLS_TTL_S", "7", "tools_ttl_s", 7.0),
        ("MENTAT_SECRET", " key\n", "secret", b"key"),
        ("MENTAT_UNIVERSE", "lab", "universe", "lab"),
        ("DRAIN_S", "7", "drain_s", 7.0),
        ("SSE_KEEPALIVE_S", "7", "sse_keepalive_s", 7.0),
        ("SSE_KEEPALIVE_S", " 0", "sse_keepalive_s", 0.0),
        ("SSE_KEEPALIVE_S", "0.0", "sse_keepalive_s", 0.0),
        ("CLIENT_TIMEOUT_S", "7", "client_timeout_s", 7.0),
        ("MAX_CONNECTIONS", "7", "max_connections", 7),
        ("CORS_ALLOW_ORIGINS", "*", "cors_allow_origins", frozenset({"*"})),
        (
            "CORS_ALLOW_ORIGINS",
            "https://Chat.example/, http://10.0.0.1:3000,https://a:443,http://[::1]:80,tauri://localhost",
            "cors_allow_origins",
            frozenset(
                {
                    "https://chat.example",
                    "http://10.0.0.1:3000",
                    "https://a",
                    "http://[::1]",
                    "tauri://localhost",
                }
            ),
        ),
        ("ENGINE_API_KEY", " sk-1\n", "engine_api_key", b"sk-1"),
        ("BODY_MEMORY_MIB", "256", "body_memory_mib", 256),
    ],
)
def test_a_value_that_is_taken(name: str, text: str, field: str, value: Any) -> None:
    assert read_settings({name: text}) == replaced(**{field: value})


def replaced(**changes: Any) -> Settings:
    return Settings(**{field.name: getattr(DEFAULTS, field.name) for field in fields(Settings)} | changes)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "ten", "1e999", " "])
@pytest.mark.parametrize("name", [variable.name for variable in VARIABLES if variable.name.endswith("_S")])
def test_a_duration_that_is_not_positive_and_finite_takes_the_default(name: str, text: str) -> None:
    if (name, text) == ("SSE_KEEPALIVE_S", "0"):
        return  # the one duration that may be 0
    settings = read_settings({name: text})
    assert replaced(warnings=settings.warnings) == settings
    assert [warning.partition(":")[0] for warning in settings.warnings] == [name]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(
            (name, text)
            for name in ("SERVE_PORT", "MENTAT_ANNOUNCE_PORT")
            for text in ("-1", "65536", "http", "1.0")
        ),
        *(("MAX_CONNECTIONS", text) for text in ("0", "-1", "many", "1000001")),
        *(("BODY_MEMORY_MIB", text) for text in ("0", "-1", "1G", "0.5")),
    ],
)
def test_a_number_out_of_range_takes_the_default(name: str, text: str) -> None:
    settings = read_settings({name: text})
    assert replaced(warnings=settings.warnings) == settings
    assert [warning.partition(":")[0] for warning in settings.warnings] == [name]


@pytest.mark.parametrize("text", ["0.0999", "1e-9", "5e-324"])
@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("POLL_INTERVAL_S", "poll_interval_s"),
        ("PROBE_INTERVAL_S", "probe_interval_s"),
        ("SSE_KEEPALIVE_S", "sse_keepalive_s"),
        ("CLIENT_TIMEOUT_S", "client_timeout_s"),
    ],
)
def test_an_interval_that_would_keep_the_router_busy_is_raised(name: str, field: str, text: str) -> None:
    environ = {name: text, "PROBE_FRESH_S": "18", "PROBE_PROMOTE_S": "30"}
    warnings = (f"{name}: 0.1 is taken in place of {text!r}",)
    assert read_settings(environ) == replaced(**{field: 0.1}, warnings=warnings)
    assert read_settings(environ | {name: "0.1"}) == replaced(**{field: 0.1})


def test_defaults_that_follow_others() -> None:
    settings = read_settings({"PROBE_INTERVAL_S": "2", "PROBE_TIMEOUT_S": "1", "PROBE_FRESH_S": "x"})
    assert (settings.probe_fresh_s, settings.probe_promote_s) == (7.0, 12.0)
    raised = read_settings({"PROBE_INTERVAL_S": "1e-9", "PROBE_TIMEOUT_S": "1"})
    assert (raised.probe_fresh_s, raised.probe_promote_s) == pytest.approx((1.3, 0.6))
    assert settings.warnings == (
        (
            "PROBE_FRESH_S: 'x' is not a number of seconds above 0; "
            "its default stands (three probe intervals plus one timeout)"
        ),
    )


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("", ()),
        (" , ", ()),
        ("10.0.0.1, 10.0.0.2:7", (("10.0.0.1", 6380), ("10.0.0.2", 7))),
        ("node1,node1:6380", (("node1", 6380),)),
    ],
)
def test_seeds(text: str, seeds: tuple[tuple[str, int], ...]) -> None:
    settings = read_settings({"MENTAT_DAEMONS": text})
    assert (settings.seeds, settings.warnings) == (seeds, ())


def test_a_seed_that_is_none_is_left_out() -> None:
    settings = read_settings({"MENTAT_DAEMONS": "http://node1:6380,node2"})
    assert settings.seeds == (("node2", 6380),)
    assert [warning.partition(":")[0] for warning in settings.warnings] == ["MENTAT_DAEMONS"]


def test_a_source_that_is_none_is_left_out() -> None:
    settings = read_settings({"ALLOWED_SOURCES": "node1,10.0.0.0/33,10."})
    assert settings.allowed_sources == AllowedSources(("10.",))
    assert [warning.split("'")[1] for warning in settings.warnings] == ["node1", "10.0.0.0/33"]


def test_an_origin_that_is_none_is_left_out() -> None:
    settings = read_settings({"CORS_ALLOW_ORIGINS": "null,https://chat.example"})
    assert settings.cors_allow_origins == {"https://chat.example"}
    assert [warning.partition(":")[0] for warning in settings.warnings] == ["CORS_ALLOW_ORIGINS"]


def test_the_secrets_file_wins_or_stops_the_process(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("from the file\n")
    environ = {"MENTAT_SECRET": "k", "MENTAT_SECRET_FILE": str(file)}
    assert read_settings(environ).secret == b"from the file"
    file.write_text("\n")
    with pytest.raises(SettingsError, match="MENTAT_SECRET_FILE"):
        read_settings(environ)


def test_a_secret_is_not_shown() -> None:
    settings = read_settings({"MENTAT_SECRET": "hush", "ENGINE_API_KEY": "hush"})
    assert "hush" not in repr(settings)
    assert "hush" not in str(read_settings({"ENGINE_API_KEY": "hush hush"}).warnings)


@pytest.mark.parametrize("text", ["two words", "schlüssel", "a\r\nb", "\x7f"])
def test_an_engines_key_is_one_that_a_request_can_carry(text: str, tmp_path: Path) -> None:
    settings = read_settings({"ENGINE_API_KEY": text})
    assert settings.engine_api_key is None
    assert settings.warnings == ("ENGINE_API_KEY: its value is not a key in visible ASCII; no key is set",)
    file = tmp_path / "key"
    file.write_text(text)
    with pytest.raises(SettingsError, match=r"ENGINE_API_KEY_FILE=.*visible ASCII"):
        read_settings({"ENGINE_API_KEY_FILE": str(file)})


def test_an_engines_key_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("sk-1\n")
    assert read_settings({"ENGINE_API_KEY_FILE": str(file), "ENGINE_API_KEY": "x"}).engine_api_key == b"sk-1"


@given(
    st.dictionaries(st.sampled_from([v.name for v in VARIABLES if not v.name.endswith("_FILE")]), st.text())
)
def test_no_value_stops_the_process(environ: dict[str, str]) -> None:
    read_settings({name: text.encode("utf-8", "replace").decode() for name, text in environ.items()})


def test_every_variable_has_its_row_in_the_documentation() -> None:
    section = PAGE.read_text().split("| --- | --- | --- | --- |\n", 1)[1].split("\n\n", 1)[0]
    rows = [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in section.splitlines()]
    assert rows == [(f"`{v.name}`", shown(v.default), v.value, v.help) for v in VARIABLES]


def shown(default: str) -> str:
    """A fixed text is code, words are words."""
    return default if default == "unset" or " " in default else f"`{default}`"


def test_help_shows_every_variable_with_its_default_in_one_screen() -> None:
    text = help_text()
    for variable in VARIABLES:
        assert re.search(
            rf"^  {variable.name} +\S[^\[]*\[{re.escape(variable.default)}\]$", text, re.MULTILINE
        )
    assert text.startswith("usage: mentatd-serve ")
    assert text.endswith("]\n")
    lines = text.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
