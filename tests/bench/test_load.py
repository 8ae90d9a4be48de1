"""The load generator in front of the engine: every kind of workload, shortened, and a program that lies."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from bench.answers import document, told, whole
from bench.load import KINDS
from bench.programs import engine
from bench.questions import Target
from bench.seen import heard
from bench.workloads import WORKLOADS, Workload

from bench import load


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with engine(tmp_path_factory.mktemp("engine"), "0-1023") as port:
        yield port


SHORT = {
    "W0": replace(WORKLOADS["W0"], requests=3),
    "W1": replace(WORKLOADS["W1"], connections=2, requests=7),
    "W2": replace(WORKLOADS["W2"], connections=2, requests=3),
    "W3": replace(WORKLOADS["W3"], connections=2, requests=3),
    "W4": replace(WORKLOADS["W4"], connections=3, requests=3, chunks=3),
    "W6": replace(WORKLOADS["W6"], connections=3, requests=2),
    "W7": replace(WORKLOADS["W7"], requests=2, seconds=0.1),
}


@pytest.mark.parametrize("name", SHORT)
def test_every_kind_is_answered_rightly(name: str, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "IDLE_S", 0.0)
    workload = SHORT[name]
    seen = KINDS[workload.kind](workload, Target(port))
    assert (seen.errors, seen.first_error) == (0, "")
    assert seen.figures["request_p50_us"] > 0
    if workload.kind == "loop":
        assert seen.figures["requests"] == workload.requests
        assert seen.figures["chunks"] == workload.requests * workload.chunks
        assert ("chunk_p50_us" in seen.figures) == (workload.pause_ms > 0)


def test_a_large_body_beside_streams(
    port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(load, "AFTER_S", 0.0)
    workload = replace(WORKLOADS["W5"], connections=2, seconds=0.1, body_bytes=2 << 20, chunks=4)
    seen = KINDS[workload.kind](workload, Target(port))
    assert (seen.errors, seen.first_error) == (0, "")
    assert seen.figures["large_ms"] > 0
    assert [heard(line) for line in capsys.readouterr().out.splitlines()] == ["large", "answered"]


@pytest.fixture
def liar() -> Iterator[int]:
    """A server that has one answer for everything and closes after it."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(20)

    def serve() -> None:
        for _ in range(2):
            try:
                client, _ = listening.accept()
            except OSError:
                return
            with client:
                client.recv(65_536)
                client.sendall(whole(document(told(b"another body"))))

    thread = threading.Thread(target=serve)
    thread.start()
    with closing(listening):
        yield listening.getsockname()[1]
        # whom nobody asked any more
        for _ in range(2):
            try:
                socket.create_connection(listening.getsockname(), timeout=1).close()
            except OSError:
                break
        thread.join()


@pytest.mark.parametrize("name", ["W0", "W1"])
def test_an_answer_to_another_body_is_an_error(name: str, liar: int) -> None:
    workload: Workload = replace(SHORT[name], connections=1, requests=1)
    seen = KINDS[workload.kind](workload, Target(liar))
    assert seen.errors
    assert "fp_" in seen.first_error
    assert KINDS[workload.kind](workload, Target(liar, loose=True)).errors == 0


def test_nobody_there_is_an_error_of_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        monkeypatch.setattr("sys.argv", ["load", str(unheard.getsockname()[1]), "W0"])
        monkeypatch.setattr("gc.freeze", lambda: None)
        monkeypatch.setattr("gc.set_threshold", lambda *_: None)
        load.main()
    seen = heard(capsys.readouterr().out)
    assert not isinstance(seen, str)
    assert "ConnectionRefusedError" in seen.first_error
