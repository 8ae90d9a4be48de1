"""How one value of a variable is read, and what is none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mentatd.values import (
    bearable,
    bearer,
    connections,
    mebibytes,
    origin,
    port,
    seconds_or_zero,
    seed,
    source,
)


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (port, "0", 0),
        (port, "65535", 65535),
        (connections, "1", 1),
        (mebibytes, "256", 256),
        (seconds_or_zero, " 0", 0.0),
        (seconds_or_zero, "0.0", 0.0),
        (seconds_or_zero, "0.5", 0.5),
        (bearer, " sk-1\n", b" sk-1\n"),
        (source, "10.", "10."),
        (source, "local", "local"),
        (origin, "*", "*"),
        (origin, "https://Chat.example/", "https://chat.example"),
        (origin, "https://a:443", "https://a"),
        (origin, "http://[::1]:80", "http://[::1]"),
        (origin, "http://10.0.0.1:3000", "http://10.0.0.1:3000"),
        (origin, "tauri://localhost", "tauri://localhost"),
        (seed, "node1", ("node1", 6380)),
        (seed, "Node-1.lab.:6390", ("Node-1.lab.", 6390)),
        (seed, "10.0.0.2:7", ("10.0.0.2", 7)),
        (seed, "[::1]", ("::1", 6380)),
        (seed, "[FD00::2]:7", ("fd00::2", 7)),
        (seed, "fd00::3", ("fd00::3", 6380)),
        (seed, "fd00::1:6380", ("fd00::1:6380", 6380)),
        (seed, "::ffff:10.0.0.1", ("10.0.0.1", 6380)),
    ],
)
def test_a_value(read: Callable[[str], object], text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (port, "-1"),
        (port, "65536"),
        (connections, "0"),
        (mebibytes, "0.5"),
        (seconds_or_zero, "-0.0"),
        (seconds_or_zero, "nan"),
        (bearer, "two words"),
        (bearer, ""),
        (source, "node1"),
        (source, "10.0.0.0/33"),
    ],
)
def test_what_is_none(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read(text)


@pytest.mark.parametrize(
    "entry",
    [
        "http://node1:6380",
        "node1:",
        "node1:0",
        "node1:65536",
        "node1:http",
        ":6380",
        "10.0.0.300",
        "10.0.0",
        "1",
        "[node1]:6380",
        "[10.0.0.1]:6380",
        "[::1",
        "::1]",
        "[::1]6380",
        "[]:6380",
        "::g",
        "fe80::1%eth0",
        "no de",
        "nöde",
        "x" * 254,
        ".",
    ],
)
def test_what_is_no_seed(entry: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        seed(entry)


@pytest.mark.parametrize(
    ("interval_s", "taken"), [(0.0, 0.0), (1e-9, 0.1), (0.1, 0.1), (0.25, 0.25), (3600.0, 3600.0)]
)
def test_an_interval_is_never_so_short_that_it_keeps_the_router_busy(interval_s: float, taken: float) -> None:
    assert bearable(interval_s) == taken


@pytest.mark.parametrize(
    "entry",
    [
        "null",
        "chat.example",
        "https://chat.example/app",
        "https://",
        "https://*.example",
        "a b",
        "http://a:b",
    ],
)
def test_what_is_no_origin(entry: str) -> None:
    with pytest.raises(ValueError, match="no origin"):
        origin(entry)
