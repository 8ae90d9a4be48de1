"""mentatd-demo, as a process: what a first-time user sees."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.cli.programs import Program, fetch, run, running
from tests.support.deadlines import wait_until

from mentatd import __version__
from mentatd.demo.app import OPTIONS

DEMO = "mentatd.cli.demo"
DOCS = Path(__file__).parents[2] / "docs" / "demo.md"
END_S = 10.0
"""The promise: everything has ended this long after Ctrl-C."""

pytestmark = pytest.mark.e2e


class Demo:
    """A demonstration that is ready."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.base = program.wait_for(r"carries:   (http://\S+)/\n")
        program.wait_for(r"Ctrl-C ends everything\.\n")
        self.children = psutil.Process(program.process.pid).children(recursive=True)

    def end(self, number: int) -> int:
        """Signal it; its exit status, once no process of it is left."""
        status = self.program.end(number)
        self.gone()
        return status

    def gone(self) -> None:
        """Wait until no child is left."""
        _, left = psutil.wait_procs(self.children, timeout=END_S)
        assert left == []

    def child(self, *words: str) -> psutil.Process:
        """The child whose command line has these words."""
        (found,) = (c for c in self.children if set(words) <= set(c.cmdline()))
        return found

    def models(self) -> set[str]:
        return {entry["id"] for entry in fetch(f"{self.base}/v1/models")["data"]}


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    with running(tmp_path / "demo", DEMO, "--port", "0", "--flicker", "600") as program:
        yield Demo(program)


def test_version_and_help() -> None:
    assert run(DEMO, "--version").stdout == f"mentatd-demo {__version__}\n"
    assert "--port" in run(DEMO, "--help").stdout


@pytest.mark.parametrize(
    "arguments", [("--nonsense",), ("--port", "x"), ("--flicker", "0"), ("--traffic", "-1")]
)
def test_a_wrong_command_line(arguments: tuple[str, ...]) -> None:
    done = run(DEMO, *arguments)
    assert done.returncode == 2
    assert "mentatd-demo: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_said_with_the_way_out() -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(DEMO, "--port", str(port))
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
    lines = re.findall(r"^ +(curl .*)$", demo.program.said, re.MULTILINE)
    listing, stream, status = (
        subprocess.run(shlex.split(line), capture_output=True, timeout=30, check=True).stdout
        for line in lines
    )
    assert {entry["id"] for entry in json.loads(listing)["data"]} == {"poet", "parrot", "flicker"}
    assert stream.count(b"data: ") > 20
    assert stream.endswith(b"data: [DONE]\n\n")
    assert set(json.loads(status)["groups"]) == {"poet", "parrot", "flicker"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_of_it(demo: Demo, number: int) -> None:
    logs = Path(demo.program.wait_for(r"logs of all programs are in (\S+)\."))
    assert len(list(logs.iterdir())) == 9
    started = time.monotonic()
    assert demo.end(number) == 0
    assert time.monotonic() - started < END_S
    assert not logs.exists()
    assert "Traceback" not in demo.program.said


def test_none_outlives_it_when_it_is_killed(demo: Demo) -> None:
    demo.program.end(signal.SIGKILL)
    demo.gone()


def test_one_that_ends_on_its_own_is_named_and_ends_the_rest(demo: Demo) -> None:
    demo.child("mentatd.cli.register", "parrot").kill()
    assert demo.program.process.wait(END_S) == 1
    demo.gone()
    assert "mentatd-demo: agent parrot has ended (signal 9)" in demo.program.said
    assert "event=register_up" in demo.program.said


def test_one_engine_comes_and_goes(tmp_path: Path) -> None:
    with running(tmp_path / "demo", DEMO, "--port", "0", "--flicker", "2", "--traffic", "1") as program:
        demo = Demo(program)
        program.wait_for("flicker is down")
        wait_until(lambda: demo.models() == {"poet", "parrot"})
        reason = fetch(f"{demo.base}/status.json")["groups"]["flicker"]["why_not"]
        assert "endpoint probe failed: http://127.0.0.2:" in reason
        ask = urllib.request.Request(f"{demo.base}/v1/completions", b'{"model":"flicker","prompt":"x"}')
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(ask, timeout=10)
        refused.value.close()
        assert refused.value.code == 503
        program.wait_for("flicker is started again")
        wait_until(lambda: "flicker" in demo.models())
        assert demo.end(signal.SIGTERM) == 0
