"""Notifications to a supervisor's socket."""

from __future__ import annotations

import socket
from pathlib import Path
from uuid import uuid4

import pytest

from mentatd.notify import READY, notify


def bound(address: str) -> socket.socket:
    supervisor = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    supervisor.settimeout(10)
    supervisor.bind(address)
    return supervisor


def test_a_supervisor_is_told(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with bound(path) as supervisor:
        notify({"NOTIFY_SOCKET": path}, READY)
        assert supervisor.recv(100) == b"READY=1"


def test_its_socket_may_be_abstract() -> None:
    name = f"mentat-test-{uuid4()}"
    with bound("\0" + name) as supervisor:
        notify({"NOTIFY_SOCKET": "@" + name}, READY)
        assert supervisor.recv(100) == b"READY=1"


@pytest.mark.parametrize("environ", [{}, {"NOTIFY_SOCKET": ""}])
def test_without_one_nothing_is_said(environ: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    notify(environ, READY)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("path", ["/none/there", "x" * 200, "a\0b"])
def test_one_that_cannot_be_reached_is_a_line_in_the_log(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    notify({"NOTIFY_SOCKET": path}, READY)
    assert 'event=notify_failed state="READY=1" error=' in capsys.readouterr().err


def test_a_supervisor_that_does_not_read_holds_nobody_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "notify")
    with bound(path):
        for _ in range(10_000):
            notify({"NOTIFY_SOCKET": path}, READY)
            if "notify_failed" in capsys.readouterr().err:
                return
        pytest.fail("never full")
