"""Options from flags and variables, and what their texts mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd import __version__
from mentatd.demo import app as demo
from mentatd.demo import engine, llama
from mentatd.errors import SettingsError
from mentatd.lite import settings as lite
from mentatd.options import Option, address, count, host_port, milliseconds, parse, port, seconds, word
from mentatd.register import settings as register

OPTIONS = (
    Option("group", "MENTAT_GROUP", "default", "the group", "NAME"),
    Option("speed", "", "5", "100% of it", "KM/H"),
    Option("", "MENTAT_SECRET", "", "the key", shown="none"),
)
ALONE = (Option("find", "FIND", "", "where to look", "PLACE", alone="everywhere"),)


def read(*argv: str, **environ: str) -> dict[str, str]:
    return dict(parse("it", "It does.", OPTIONS, argv, environ))


@pytest.mark.parametrize(
    ("argv", "environ", "group"),
    [
        ((), {}, "default"),
        ((), {"MENTAT_GROUP": ""}, "default"),
        ((), {"MENTAT_GROUP": " glm "}, "glm"),
        (("--group", "x"), {"MENTAT_GROUP": "glm"}, "x"),
        (("--group=x",), {}, "x"),
        (("--group", ""), {"MENTAT_GROUP": "glm"}, "glm"),
    ],
)
def test_the_flag_then_the_variable_then_the_default(
    argv: tuple[str, ...], environ: dict[str, str], group: str
) -> None:
    assert read(*argv, **environ) == {"--group": group, "--speed": "5", "MENTAT_SECRET": ""}


@pytest.mark.parametrize(
    ("argv", "environ", "found"),
    [
        ((), {}, ""),
        (("--find",), {}, "everywhere"),
        (("--find", "here"), {}, "here"),
        (("--find",), {"FIND": "there"}, "everywhere"),
        ((), {"FIND": "there"}, "there"),
    ],
)
def test_a_flag_that_says_something_alone(argv: tuple[str, ...], environ: dict[str, str], found: str) -> None:
    assert parse("it", "It does.", ALONE, argv, environ) == {"--find": found}


def test_the_environment_alone() -> None:
    assert read(MENTAT_SECRET="k")["MENTAT_SECRET"] == "k"


def test_help_tells_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read("--help")
    told = capsys.readouterr().out
    assert ended.value.code == 0
    for text in (
        "It does.",
        "--group NAME",
        "--speed KM/H",
        "MENTAT_GROUP; default",
        "100% of it",
        "MENTAT_SECRET: the key (none)",
    ):
        assert text in told


def test_help_tells_that_a_flag_needs_no_value(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("it", "It does.", ALONE, ["--help"], {})
    assert "--find [PLACE]" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options", [lite.OPTIONS, register.OPTIONS, demo.OPTIONS, engine.OPTIONS, llama.OPTIONS]
)
def test_every_flag_of_the_commands_names_its_value(options: tuple[Option, ...]) -> None:
    assert [option.flag for option in options if bool(option.flag) != bool(option.value)] == []


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read("--version")
    assert (ended.value.code, capsys.readouterr().out) == (0, f"it {__version__}\n")


@pytest.mark.parametrize("argv", [("--nonsense",), ("word",), ("--grou", "x"), ("--group",)])
def test_another_command_line_is_refused(argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read(*argv)
    assert ended.value.code == 2
    assert "usage: it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1", ("10.0.0.1", 6379)),
        ("10.0.0.1:80", ("10.0.0.1", 80)),
        ("head.local:80", ("head.local", 80)),
        ("[::1]:80", ("::1", 80)),
        ("[::1]", ("::1", 6379)),
        ("fd00::1", ("fd00::1", 6379)),
    ],
)
def test_host_port(text: str, address: tuple[str, int]) -> None:
    assert host_port("--address", text, 6379) == address


@pytest.mark.parametrize(
    "text", ["", ":80", "a:", "a:0", "a:65536", "a:x", "[::1", "[::1]x", "http://a:80", "a b"]
)
def test_host_port_refuses(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^--address="):
        host_port("--address", text, 6379)


@given(st.text())
def test_host_port_reads_or_refuses_any_text(text: str) -> None:
    try:
        host, number = host_port("x", text, 1)
    except SettingsError:
        return
    assert host
    assert 1 <= number <= 65535


def test_numbers() -> None:
    assert port("x", "65535") == 65535
    assert port("x", "0", lowest=0) == 0
    assert count("x", "0") == 0
    assert seconds("x", "0.25") == 0.25
    assert milliseconds("x", "600000") == 600_000


def test_words() -> None:
    assert word("x", "Grüße 7") == "Grüße 7"


@pytest.mark.parametrize("text", ["a\nb", "\udcff", "x" * 201])
def test_what_is_no_word(text: str) -> None:
    with pytest.raises(SettingsError, match="is not a name") as refused:
        word("x", text)
    assert str(refused.value).isascii()


def test_addresses() -> None:
    assert address("x", "10.0.0.1") == "10.0.0.1"
    assert address("x", "FD00:0::1") == "fd00::1"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not an IP address"),
        ("localhost", "is not an IP address"),
        ("0.0.0.0", "is every address"),
        ("::", "is every address"),
    ],
)
def test_what_is_no_address(text: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        address("x", text)


@pytest.mark.parametrize("text", ["", "0", "-1", "65536", "1.5", "٣", "9" * 5000])
def test_what_is_no_port(text: str) -> None:
    with pytest.raises(SettingsError, match="is not a port number from 1 to 65535"):
        port("x", text)


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "inf", "x"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(SettingsError, match="is not a number of seconds above 0"):
        seconds("x", text)


def test_what_is_too_short() -> None:
    assert seconds("x", "0.1", lowest=0.1) == 0.1
    with pytest.raises(SettingsError, match=r"^x='0\.09' is not a number of seconds from 0\.1$"):
        seconds("x", "0.09", lowest=0.1)
    assert milliseconds("x", "100", lowest=100) == 100
    with pytest.raises(SettingsError, match=r"is not a number of milliseconds from 100 to"):
        milliseconds("x", "99", lowest=100)
