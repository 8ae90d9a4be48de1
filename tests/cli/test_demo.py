"""mentatd-demo, as a process: what a first-time user sees."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.cli.programs import fetch, run
from tests.support.commands import Command, command
from tests.support.deadlines import DEADLINE_S, wait_until

from mentatd import __version__
from mentatd.demo.app import OPTIONS

DOCS = Path(__file__).parents[2] / "docs" / "demo.md"
READY_S = 30.0
END_S = 10.0
"""The promise: everything has ended this long after Ctrl-C."""

pytestmark = pytest.mark.e2e


class Demo:
    """A demonstration that is ready."""

    def __init__(self, running: Command) -> None:
        self.command = running
        self.said(r"Ctrl-C ends everything\.\n", READY_S)
        self.base = self.said(r"carries:   (http://\S+)/\n")
        self.children = psutil.Process(running.pid).children(recursive=True)

    def said(self, pattern: str, within_s: float = DEADLINE_S) -> str:
        """Wait until it has told what `pattern` matches; the match's last group."""
        wait_until(lambda: re.search(pattern, self.command.output), within_s)
        found = re.search(pattern, self.command.output)
        assert found is not None
        return found[found.re.groups]

    def gone(self) -> None:
        """Wait until no process of it is left."""
        _, left = psutil.wait_procs(self.children, timeout=END_S)
        assert left == []

    def models(self) -> set[str]:
        return {entry["id"] for entry in fetch(f"{self.base}/v1/models")["data"]}


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    with command("mentatd-demo --port 0 --flicker 600", tmp_path / "demo") as running:
        yield Demo(running)


def test_version_and_help() -> None:
    assert run("mentatd-demo --version").stdout == f"mentatd-demo {__version__}\n"
    assert "--port" in run("mentatd-demo --help").stdout


@pytest.mark.parametrize("arguments", ["--nonsense", "--port x", "--flicker 0", "--traffic -1", "--engine x"])
def test_a_wrong_command_line(arguments: str) -> None:
    done = run(f"mentatd-demo {arguments}")
    assert done.returncode == 2
    assert "mentatd-demo: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_said_with_the_way_out() -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(f"mentatd-demo --port {port}")
    assert done.returncode == 2
    assert f"cannot listen on port {port}" in done.stderr
    assert "--port" in done.stderr


def test_the_page_has_a_row_for_each_option() -> None:
    rows = re.findall(r"^\| `(--\S+)` \|", DOCS.read_text(), re.MULTILINE)
    assert rows == [option.name for option in OPTIONS]


def test_three_models_on_two_nodes_found_by_announcement(demo: Demo) -> None:
    status = fetch(f"{demo.base}/status.json")
    assert {group: row["healthy"] for group, row in status["groups"].items()} == {
        "poet": True,
        "parrot": True,
        "flicker": True,
    }
    assert {row["provider"] for row in status["groups"].values()} == {"vllm"}
    assert {daemon.rpartition(":")[0] for daemon in status["daemons"]} == {"127.0.0.1", "127.0.0.2"}
    assert status["groups"]["poet"]["openai"].startswith("http://127.0.0.1:")
    assert status["groups"]["parrot"]["openai"].startswith("http://127.0.0.2:")
    assert len(demo.children) == 9


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")
def test_what_it_proposes_works_as_it_is_written(demo: Demo) -> None:
    lines = re.findall(r"^ +(curl .*)$", demo.command.output, re.MULTILINE)
    listing, stream, status = (
        subprocess.run(shlex.split(line), capture_output=True, timeout=30, check=True).stdout
        for line in lines
    )
    assert {entry["id"] for entry in json.loads(listing)["data"]} == {"poet", "parrot", "flicker"}
    assert stream.count(b"data: ") > 20
    assert stream.endswith(b"data: [DONE]\n\n")
    assert set(json.loads(status)["groups"]) == {"poet", "parrot", "flicker"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_of_it(demo: Demo, number: signal.Signals) -> None:
    logs = Path(demo.said(r"logs of all programs are in (\S+)\."))
    assert len(list(logs.iterdir())) == 9
    demo.command.signal(number)
    assert demo.command.ended(END_S) == 0
    demo.gone()
    assert not logs.exists()
    assert "Traceback" not in demo.command.output


def test_none_outlives_it_when_it_is_killed(demo: Demo) -> None:
    demo.command.signal(signal.SIGKILL)
    demo.gone()


def test_one_that_ends_on_its_own_is_named_and_ends_the_rest(demo: Demo) -> None:
    (agent,) = (c for c in demo.children if {"mentatd.cli.register", "parrot"} <= set(c.cmdline()))
    agent.kill()
    assert demo.command.ended(END_S) == 1
    demo.gone()
    assert "mentatd-demo: agent parrot has ended (signal 9)" in demo.command.output
    assert "event=register_up" in demo.command.output, "the end of its log"


def test_one_engine_comes_and_goes(tmp_path: Path) -> None:
    with command("mentatd-demo --port 0 --flicker 2 --traffic 1", tmp_path / "demo") as running:
        demo = Demo(running)
        demo.said("flicker is down")
        wait_until(lambda: demo.models() == {"poet", "parrot"})
        reason = fetch(f"{demo.base}/status.json")["groups"]["flicker"]["why_not"]
        assert "endpoint probe failed: http://127.0.0.2:" in reason
        ask = urllib.request.Request(f"{demo.base}/v1/completions", b'{"model":"flicker","prompt":"x"}')
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(ask, timeout=10)
        refused.value.close()
        assert refused.value.code == 503
        demo.said("flicker is started again")
        wait_until(lambda: "flicker" in demo.models())
        demo.command.signal(signal.SIGTERM)
        assert demo.command.ended(END_S) == 0
        demo.gone()
