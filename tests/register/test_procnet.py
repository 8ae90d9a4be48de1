"""The parser of /proc/net/tcp, on texts as a kernel writes them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.register.procnet import TABLES, listening

HEAD = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
    "                                                     \n"
)
TAIL = "00000000:00000000 00:00000000 00000000     0        0 79 1 0000000000000000 100 0 0 10 0\n"

TCP4 = (
    HEAD
    + f"   0: 00000000:1F40 00000000:0000 0A {TAIL}"
    + f"   1: 0100007F:1F41 00000000:0000 0A {TAIL}"
    + f"   2: 0100000A:1F42 00000000:0000 0A {TAIL}"
    + f"   3: 0B01A8C0:1F42 00000000:0000 0A {TAIL}"
    + f"   4: 0100007F:1F43 0100007F:C350 01 {TAIL}"
)
TCP6 = (
    HEAD
    + f"   0: 00000000000000000000000000000000:1F44 00000000000000000000000000000000:0000 0A {TAIL}"
    + f"   1: 00000000000000000000000001000000:1F41 00000000000000000000000000000000:0000 0A {TAIL}"
    + f"   2: B80D0120000000000000000001000000:1F42 00000000000000000000000000000000:0000 0A {TAIL}"
    + f"   3: 0000000000000000FFFF00000200000A:1F45 00000000000000000000000000000000:0000 0A {TAIL}"
    + f"   4: 0000000000000000FFFF000000000000:1F46 00000000000000000000000000000000:0000 0A {TAIL}"
    + f"   5: 00000000000000000000000000000000:1F47 00000000000000000000000000000000:0000 06 {TAIL}"
)


@pytest.mark.parametrize(
    ("port", "addresses"),
    [
        (8000, ("0.0.0.0",)),
        (8001, ("127.0.0.1", "::1")),
        (8002, ("10.0.0.1", "192.168.1.11", "2001:db8::1")),
        (8004, ("::",)),
        (8005, ("10.0.0.2",)),
        (8006, ("0.0.0.0",)),
    ],
)
def test_who_listens(port: int, addresses: tuple[str, ...]) -> None:
    assert listening([TCP4, TCP6])[port] == addresses


def test_a_connection_is_no_listener() -> None:
    assert sorted(listening([TCP4, TCP6])) == [8000, 8001, 8002, 8004, 8005, 8006]


@pytest.mark.parametrize(
    "row",
    [
        "",
        "   0:",
        "   0: 0100007F:1F40 00000000:0000",
        "   0: 0100007F 00000000:0000 0A x",
        "   0: 01007F:1F40 00000000:0000 0A x",
        "   0: 0100007F:1F4X 00000000:0000 0A x",
        "   0: 0100007X:1F40 00000000:0000 0A x",
    ],
)
def test_a_bad_row_is_skipped(row: str) -> None:
    assert listening([f"{HEAD}{row}\n   1: 00000000:1F90 00000000:0000 0A {TAIL}"]) == {8080: ("0.0.0.0",)}


@given(st.lists(st.text()))
def test_any_text_is_read(tables: list[str]) -> None:
    listening(tables)


def test_the_kernel_of_this_box_is_understood() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        found = listening([Path(TABLES[0]).read_text()])
        assert "127.0.0.1" in found[sock.getsockname()[1]]
