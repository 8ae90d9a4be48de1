"""The peers of the bench: how they are told where to listen and whom to ask, and how they are installed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench.peers import PEERS, install, launch
from bench.programs import Peer, Running
from bench.workloads import WORKLOADS

ENGINE, CORE = 45_001, "7"
DAEMON = "127.0.0.1:45002"


class Started:
    """What one peer was started with, in place of the real process."""

    def __init__(self) -> None:
        self.argv: list[str] = []
        self.cores = ""
        self.env: Mapping[str, str] = {}
        self.port = 0
        self.loose = False
        self.prefix = ""

    @contextmanager
    def process(
        self, argv: Sequence[str], log: Path, cores: str, env: Mapping[str, str] | None = None
    ) -> Iterator[None]:
        self.argv, self.cores, self.env = list(argv), cores, env or {}
        yield

    def ready(
        self, _process: None, port: int, *, loose: bool = False, prefix: str = "", model: str = ""
    ) -> Running:
        self.port, self.loose, self.prefix = port, loose, prefix
        return Running(1, port, prefix=prefix)

    def told(self, folder: Path) -> str:
        """All that the program can read: its command line, its environment, its configuration."""
        files = [file.read_text() for file in folder.iterdir()]
        return "\n".join([*self.argv, *self.env.values(), *files])


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    @contextmanager
    def daemon(_folder: Path, engine_port: int) -> Iterator[str]:
        assert engine_port == ENGINE
        yield DAEMON

    started = Started()
    monkeypatch.setattr(launch, "process", started.process)
    monkeypatch.setattr(launch, "ready", started.ready)
    monkeypatch.setattr(launch, "daemon", daemon)
    return started


@pytest.mark.parametrize("peer", PEERS.values(), ids=PEERS)
def test_a_peer_is_told_its_engine_and_its_port(peer: Peer, started: Started, tmp_path: Path) -> None:
    with peer.start(tmp_path, ENGINE, CORE) as running:
        told = started.told(tmp_path)
    assert (started.cores, started.loose) == (CORE, peer.loose)
    assert (running.port, running.prefix) == (started.port, started.prefix)
    assert str(running.port) in told
    assert (DAEMON if peer.cluster else f"127.0.0.1:{ENGINE}") in told
    assert "0.0.0.0" not in told, "it would listen to the network"
    assert "$" not in told, "a place of a template was left as it is"


def test_one_over_daemons_is_told_all_of_them(started: Started, tmp_path: Path) -> None:
    over = PEERS["mentatd-serve-rust"].cluster
    assert over
    with over(tmp_path, [DAEMON, "127.0.0.1:45003"], "g1", CORE) as running:
        assert started.env["MENTAT_DAEMONS"] == f"{DAEMON},127.0.0.1:45003"
        assert started.env["SERVE_PORT"] == str(running.port)


@pytest.mark.parametrize("peer", PEERS.values(), ids=PEERS)
def test_what_a_peer_cannot_do_is_a_workload_with_a_reason(peer: Peer) -> None:
    assert set(peer.cannot) <= set(WORKLOADS)
    assert all(peer.cannot.values())


def test_what_is_installed_is_a_pinned_peer() -> None:
    assert set(install.PINS) <= set(PEERS)
    assert all("==" in requirement for requirement in install.PINS.values())


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(install, "CACHE", tmp_path)
    return tmp_path


def test_the_version_is_that_of_the_peers_own_environment(cache: Path) -> None:
    info = cache / "litellm" / "lib" / "python3.13" / "site-packages" / "litellm-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: litellm\nVersion: 1.2\n")
    assert install.release("litellm", "litellm") == "1.2"
    with pytest.raises(LookupError, match="smg is not installed"):
        install.release("smg", "smg")


@pytest.mark.parametrize(
    ("script", "version"),
    [
        ("echo 'version: v250-5-g0bdb37 (abcd1234), built at unknown'", "v250-5-g0bdb37"),
        ("echo '  Olla v0.0.28  ' >&2", "v0.0.28"),
        ("echo version", None),
    ],
)
def test_a_program_tells_its_version(script: str, version: str | None, tmp_path: Path) -> None:
    command = tmp_path / "told"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    if version:
        assert install.told_version(command, "--version") == version
    else:
        with pytest.raises(LookupError, match="told no version"):
            install.told_version(command, "--version")


def test_an_environment_is_made_once_and_gets_wheels_only(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []
    ran: list[list[str]] = []

    def create(folder: Path, **_how: bool) -> None:
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python").touch()
        made.append(folder)

    monkeypatch.setattr("venv.create", create)
    monkeypatch.setattr(subprocess, "run", lambda argv, **_how: ran.append(argv))
    install.install("smg", "smg==1.2")
    install.install("smg", "smg==1.3")
    assert made == [cache / "smg"]
    assert [argv[-3:] for argv in ran] == [
        ["--only-binary", ":all:", "smg==1.2"],
        ["--only-binary", ":all:", "smg==1.3"],
    ]


def test_one_that_cannot_be_had_does_not_keep_the_others_away(monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[str] = []

    def refuse_smg(peer: str, requirement: str) -> None:
        if peer == "smg":
            raise subprocess.CalledProcessError(1, ["pip", requirement])
        installed.append(peer)

    monkeypatch.setattr(install, "install", refuse_smg)
    with pytest.raises(SystemExit, match="not installed: smg; bench-all leaves them out"):
        install.main()
    assert installed == [peer for peer in install.PINS if peer != "smg"]
