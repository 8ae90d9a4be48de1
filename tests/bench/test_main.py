"""The command line: what is chosen, and a clear error for what cannot be done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from bench.machine import NO_CLUSTER, reasons
from bench.reference import NGINX
from bench.router import COMPILED_ROUTER, ROUTER
from bench.workloads import WORKLOADS

from bench import __main__ as command


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """nginx is not installed, all else is."""
    known = {name: replace(peer, installed=lambda: True) for name, peer in command.PROGRAMS.items()}
    monkeypatch.setattr(command, "PROGRAMS", known | {"nginx": replace(NGINX, installed=lambda: False)})


def test_everything_can_be_asked_for(absent: None) -> None:
    chosen = command.choose(["-r", "5", "-w", "all", "-p", "all", "-o", "x.jsonl"])
    assert (chosen.rounds, chosen.output) == (5, Path("x.jsonl"))
    assert chosen.workloads == tuple(WORKLOADS.values())
    assert [peer.name for peer in chosen.missing] == ["nginx"]
    assert len(chosen.peers) == len(command.PROGRAMS) - 1


def test_a_choice_is_kept_in_order_and_taken_once() -> None:
    chosen = command.choose(["-w", "W9,W1,W9-10", "-p", "mentatd-serve,direct,direct"])
    assert [workload.name for workload in chosen.workloads] == ["W9-10", "W9-100", "W9-1000", "W1"]
    assert [peer.name for peer in chosen.peers] == ["mentatd-serve", "direct"]


@pytest.mark.parametrize("compiled", [True, False])
def test_the_compiled_build_is_measured_where_it_is(monkeypatch: pytest.MonkeyPatch, compiled: bool) -> None:
    known = {name: replace(peer, installed=lambda: True) for name, peer in command.PROGRAMS.items()}
    known[COMPILED_ROUTER.name] = replace(COMPILED_ROUTER, installed=lambda: compiled)
    monkeypatch.setattr(command, "PROGRAMS", known)
    names = [peer.name for peer in command.choose([]).peers]
    assert names == ["nginx", "mentatd-serve", "mentatd-serve-compiled"][: 2 + compiled]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-w", "W77"], "there is no 'W77'"),
        (["-p", "haproxy"], "there is no 'haproxy'"),
        (["-p", "nginx"], "not installed: nginx"),
        (["-r", "0"], "at least one round"),
        (["-r", "many"], "invalid int value"),
    ],
)
def test_what_cannot_be_done_is_said(
    arguments: list[str], said: str, absent: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.choose(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_what_a_program_is_not_given_has_a_reason() -> None:
    assert reasons(ROUTER) == {}
    left_out = reasons(replace(NGINX, cannot={"W9": "other", "W5": "no"}))
    assert left_out["W8"] == NO_CLUSTER
    assert left_out["W5"] == "no"
    assert left_out["W9-1000"] == "other"
