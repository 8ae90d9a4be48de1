"""mentatd-lite, as a process."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest
from tests.cli.programs import fetch, run, running

from mentatd import __version__

LITE = "mentatd.cli.lite"
ON_LOOPBACK = ("--bind", "127.0.0.1", "--port", "0", "--http-port", "0", "--announce-port", "0")


def test_version_and_help() -> None:
    assert run(LITE, "--version").stdout == f"mentatd-lite {__version__}\n"
    told = run(LITE, "--help")
    assert told.returncode == 0
    assert "MENTAT_ANNOUNCE_ADDR" in told.stdout


@pytest.mark.parametrize("arguments", [("--nonsense",), ("--port", "x"), ("--bind", "everywhere")])
def test_a_wrong_command_line(arguments: tuple[str, ...]) -> None:
    done = run(LITE, *arguments)
    assert done.returncode == 2
    assert "mentatd-lite: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("flag", ["--port", "--http-port"])
def test_a_port_in_use_is_said(flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(LITE, *ON_LOOPBACK, flag, str(port))
    assert done.returncode == 1
    assert done.stderr == f"mentatd-lite: cannot listen on port {port}: Address already in use\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal(tmp_path: Path, number: int) -> None:
    with running(tmp_path / "log", LITE, *ON_LOOPBACK) as lite:
        port = lite.wait_for(r"event=lite_up .*http=(\d+)")
        status = fetch(f"http://127.0.0.1:{port}/status")
        assert (status["node_ip"], status["addrs"], status["groups"]) == ("127.0.0.1", ["127.0.0.1"], {})
        assert lite.end(number) == 0
        assert "Traceback" not in lite.said


def test_two_on_one_box_are_two_nodes(tmp_path: Path) -> None:
    with (
        running(tmp_path / "one", LITE, *ON_LOOPBACK) as one,
        running(tmp_path / "two", LITE, *ON_LOOPBACK, "--bind", "127.0.0.2") as two,
    ):
        assert one.wait_for(r"event=lite_up node=(\S+)") != two.wait_for(r"event=lite_up node=(\S+)")


def test_the_node_is_the_same_after_a_restart(tmp_path: Path) -> None:
    with running(tmp_path / "one", LITE, *ON_LOOPBACK) as one:
        node = one.wait_for(r"event=lite_up node=(\S+)")
        port = one.wait_for(r"control=(\d+)")
    with running(tmp_path / "two", LITE, *ON_LOOPBACK, "--port", port) as two:
        assert two.wait_for(r"event=lite_up node=(\S+)") == node


@pytest.mark.parametrize(
    ("proto", "secret", "announces"),
    [("", "", "unsigned"), ("", "k", "signed"), ("0.99", "k", "signed"), ("0.99", "", '"no: this protocol')],
)
def test_it_announces_itself(tmp_path: Path, proto: str, secret: str, announces: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as router:
        router.bind(("127.0.0.1", 0))
        router.settimeout(30)
        arguments = (
            *ON_LOOPBACK[:-2],
            "--announce-addr",
            f"127.0.0.1:{router.getsockname()[1]}",
            "--proto",
            proto,
        )
        with running(tmp_path / "log", LITE, *arguments, MENTAT_SECRET=secret) as lite:
            lite.wait_for(f"announces={announces}")
            if not announces.startswith('"no'):
                datagram, source = router.recvfrom(2048)
                assert source[0] == "127.0.0.1"
                assert (b'"sig"' in datagram) == bool(secret)
                assert (b'"proto":"0.99"' in datagram) == bool(proto)
