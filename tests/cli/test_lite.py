"""mentatd-lite, as a process."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.programs import fetch, run
from tests.support.cluster import Cluster
from tests.support.deadlines import DEADLINE_S
from tests.support.engine import running

from mentatd import __version__

pytestmark = pytest.mark.e2e


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        yield cluster


def test_version_and_help() -> None:
    assert run("mentatd-lite --version").stdout == f"mentatd-lite {__version__}\n"
    told = run("mentatd-lite --help")
    assert told.returncode == 0
    assert "MENTAT_ANNOUNCE_ADDR" in told.stdout


@pytest.mark.parametrize("arguments", ["--nonsense", "--port x", "--bind everywhere"])
def test_a_wrong_command_line(arguments: str) -> None:
    done = run(f"mentatd-lite {arguments}")
    assert done.returncode == 2
    assert "mentatd-lite: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("flag", ["--port", "--http-port"])
def test_a_port_in_use_is_said(flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(f"mentatd-lite --bind 127.0.0.1 --port 0 --http-port 0 --announce-port 0 {flag} {port}")
    assert done.returncode == 1
    assert done.stderr == f"mentatd-lite: cannot listen on port {port}: Address already in use\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal(cluster: Cluster, number: signal.Signals) -> None:
    lite = cluster.daemon()
    status = fetch(f"http://{lite.http}/status")
    assert (status["node_ip"], status["addrs"], status["groups"]) == ("127.0.0.1", ["127.0.0.1"], {})
    lite.command.signal(number)
    assert lite.command.ended() == 0
    assert "Traceback" not in lite.command.output


def test_its_supervisor_is_told_when_it_serves(cluster: Cluster, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.settimeout(DEADLINE_S)
        supervisor.bind(str(tmp_path / "notify"))
        lite = cluster.daemon(NOTIFY_SOCKET=str(tmp_path / "notify"))
        assert supervisor.recv(100) == b"READY=1"
        assert fetch(f"http://{lite.http}/status")


@pytest.mark.parametrize("proto", ["''", "0.99"])
def test_a_router_that_knows_one_of_a_mesh_serves_the_engines_of_all(cluster: Cluster, proto: str) -> None:
    seed = cluster.daemon(f"--proto {proto}")
    member = cluster.daemon(f"--peers {seed.control} --proto ''", host="127.0.0.2")
    with running("tiny") as engine:
        cluster.register(member, "glm", f"http://127.0.0.1:{engine.port}/v1")
        router = cluster.router(seed, ALLOWED_SOURCES="127.")
        router.wait_models("tiny")
    assert router.status()["daemons"][member.http]["source"] == "peer"


def test_two_on_one_box_are_two_nodes(cluster: Cluster) -> None:
    one, two = cluster.daemon(), cluster.daemon(host="127.0.0.2")
    assert one.command.event("lite_up")["node"] != two.command.event("lite_up")["node"]


def test_the_node_is_the_same_after_a_restart(cluster: Cluster) -> None:
    first = cluster.daemon()
    first.command.close()
    again = cluster.daemon(f"--port {first.control.rpartition(':')[2]}")
    assert again.command.event("lite_up")["node"] == first.command.event("lite_up")["node"]


@pytest.mark.parametrize(
    ("proto", "secret", "announces"),
    [
        ("''", "", "unsigned"),
        ("''", "k", "signed"),
        ("0.99", "k", "signed"),
        ("0.99", "", "no: this protocol announces only with MENTAT_SECRET"),
    ],
)
def test_it_announces_itself(cluster: Cluster, proto: str, secret: str, announces: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as router:
        router.bind(("127.0.0.1", 0))
        router.settimeout(30)
        port = router.getsockname()[1]
        flags = f"--announce-port {port} --announce-addr 127.0.0.1 --proto {proto}"
        lite = cluster.daemon(flags, MENTAT_SECRET=secret)
        assert lite.command.event("lite_up")["announces"] == announces
        if not announces.startswith("no"):
            datagram, source = router.recvfrom(2048)
            assert source[0] == "127.0.0.1"
            assert (b'"sig"' in datagram) == bool(secret)
            assert (b'"proto":"0.99"' in datagram) == (proto == "0.99")
