"""The command, as a process."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.deadlines import wait_until

from mentatd import __version__
from mentatd.cli import serve
from mentatd.settings import help_text

QUIET = {"SERVE_PORT": "0", "MENTAT_DAEMONS": "", "MENTAT_ANNOUNCE_PORT": "0"}


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "mentatd.cli.serve", *arguments],
        env=os.environ | QUIET | environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


class Running:
    """The command while it serves."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def said(self) -> str:
        return self._log.read_text()

    @property
    def port(self) -> int:
        found = re.search(r"event=serve_up version=\S+ port=(\d+)", self.said)
        return int(found[1]) if found else 0

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self.said or self.process.poll() is not None, 30)
        assert text in self.said


@contextmanager
def serving(log: Path, **environ: str) -> Iterator[Running]:
    with log.open("w") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "mentatd.cli.serve"],
            env=os.environ | QUIET | environ,
            stderr=err,
            text=True,
        )
    try:
        running = Running(process, log)
        running.wait_for("event=serve_up")
        yield running
    finally:
        process.kill()
        process.wait()


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"mentatd-serve {__version__}\n", "")


def test_help_is_the_table_of_variables() -> None:
    done = run("--help")
    assert (done.returncode, done.stdout, done.stderr) == (0, help_text(), "")


@pytest.mark.parametrize(
    "arguments", [("--port",), ("-h",), ("--help", "x"), ("--version", "--help"), ("serve",), ("",)]
)
def test_anything_else_is_answered_with_the_usage(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["mentatd-serve", *arguments])
    with pytest.raises(SystemExit) as ended:
        serve.main()
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "usage: mentatd-serve [--version | --help]\n")


def test_a_port_in_use_stops_it_with_one_clear_line() -> None:
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        port = other.getsockname()[1]
        done = run(SERVE_PORT=str(port))
    assert done.returncode == 1
    assert done.stderr == f"mentatd-serve: cannot listen on port {port}: Address already in use\n"


def test_a_secret_file_that_cannot_be_read_stops_it(tmp_path: Path) -> None:
    done = run(MENTAT_SECRET_FILE=str(tmp_path / "none"))
    assert done.returncode == 1
    assert done.stderr.startswith("mentatd-serve: ")
    assert "MENTAT_SECRET_FILE" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path / "log") as running:
        client = http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)
        client.request("GET", "/v1/models")
        assert client.getresponse().status == 200
        running.process.send_signal(number)
        client.close()
        assert running.process.wait(30) == 0
        assert "event=serve_down" in running.said
        assert "Traceback" not in running.said


def test_a_supervisor_is_told_when_it_serves_and_when_it_ends(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.settimeout(30)
        supervisor.bind(path)
        with serving(tmp_path / "log", NOTIFY_SOCKET=path) as running:
            assert supervisor.recv(100) == b"READY=1"
            running.process.terminate()
            assert supervisor.recv(100) == b"STOPPING=1"
            assert running.process.wait(30) == 0


def test_a_second_signal_does_not_wait_for_requests_in_progress(tmp_path: Path) -> None:
    with serving(tmp_path / "log", DRAIN_S="600") as running:
        client = socket.create_connection(("127.0.0.1", running.port))
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: r\r\nExpect: 100-continue\r\n")
        client.sendall(b"Content-Length: 9\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 100 ")
        running.process.send_signal(signal.SIGTERM)
        running.wait_for("event=serve_draining connections=1")
        with pytest.raises(subprocess.TimeoutExpired):
            running.process.wait(0.3)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(30) == 0
        client.close()


def test_a_process_that_was_stopped_says_so_and_blames_nobody(tmp_path: Path) -> None:
    with serving(tmp_path / "log") as running:
        client = http.client.HTTPConnection("127.0.0.1", running.port, timeout=10)
        client.request("GET", "/v1/models")
        assert client.getresponse().status == 200  # so the guard has begun
        client.close()
        running.process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        running.process.send_signal(signal.SIGCONT)
        running.wait_for("event=loop_held_up")
        assert 'by="the process did not run"' in running.said
        running.process.terminate()
        assert running.process.wait(30) == 0


def test_it_takes_as_many_descriptors_as_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda what, pair: limits.append(pair))
    for soft, hard, wanted in [
        (1024, 4096, [(4096, 4096)]),
        (4096, 4096, []),
        (1024, resource.RLIM_INFINITY, [(serve.DESCRIPTORS, resource.RLIM_INFINITY)]),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, []),
    ]:
        monkeypatch.setattr(resource, "getrlimit", lambda what, pair=(soft, hard): pair)
        serve._raise_descriptor_limit()
        assert limits == wanted
        limits.clear()


def test_a_limit_that_cannot_be_raised_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(what: int, limits: tuple[int, int]) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("resource.getrlimit", lambda what: (1024, 4096))
    monkeypatch.setattr("resource.setrlimit", refuse)
    serve._raise_descriptor_limit()
    assert "event=descriptor_limit_kept limit=1024" in capsys.readouterr().err


def test_threads_give_way_to_the_event_loop_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    intervals: list[float] = []
    for name in QUIET:
        monkeypatch.setenv(name, QUIET[name])
    monkeypatch.setattr(sys, "argv", ["mentatd-serve"])
    monkeypatch.setattr(sys, "setswitchinterval", intervals.append)
    monkeypatch.setattr("uvloop.run", lambda serving: serving.close())
    with pytest.raises(SystemExit) as ended:
        serve.main()
    assert ended.value.code == 0
    assert intervals == [serve.SWITCH_S]
