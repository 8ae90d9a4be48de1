"""An agent's hardware in both generations."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.strategies import generations, machines

from mentatd.wire.fields import Fields
from mentatd.wire.machine import Gpu, Machine, read_machine, write_machine
from mentatd.wire.version import Generation

A = {"gpus": [0, 3], "gpu_vendor": "nvidia", "cpus": 20}
B = {
    "machine": {
        "memory": 137438953472,
        "cpus": 20,
        "gpus": [{"index": 0, "vendor": "nvidia", "name": "RTX 6000", "memory": 51539607552, "uma": True}],
    }
}


@pytest.mark.parametrize(
    ("register", "machine"),
    [
        (A, Machine(cpus=20, gpus=(Gpu(0, "nvidia"), Gpu(3, "nvidia")))),
        (B, Machine(20, 137438953472, (Gpu(0, "nvidia", "RTX 6000", 51539607552, True),))),
        ({}, Machine()),
        ({"machine": {}}, Machine()),
        ({"machine": {"gpus": [{}]}}, Machine(gpus=(Gpu(0),))),
    ],
)
def test_reading(register: dict[str, Any], machine: Machine) -> None:
    fields = Fields(register)
    assert read_machine(fields) == machine
    assert fields.problems() == ()


@given(st.data(), generations)
def test_what_is_written_reads_the_same(data: st.DataObject, generation: Generation) -> None:
    machine = data.draw(machines(generation))
    assert read_machine(Fields(write_machine(machine, generation))) == machine


def test_generation_a_loses_what_it_has_no_word_for() -> None:
    machine = read_machine(Fields(B))
    assert write_machine(machine, "A") == {"gpus": [0], "gpu_vendor": "nvidia", "cpus": 20}
    assert write_machine(machine, "B") == B


def test_a_wrong_gpu_is_reported_by_its_path() -> None:
    fields = Fields({"machine": {"gpus": [{"index": 0}, 7, {"index": "x"}]}})
    assert read_machine(fields).gpus == (Gpu(0), Gpu(0))
    assert [problem.path for problem in fields.problems()] == ["machine.gpus[1]", "machine.gpus[2].index"]
