"""What an agent says of the hardware that it offers (wire.md section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mentatd.wire.fields import Fields
from mentatd.wire.version import Generation


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device that the agent may bind."""

    index: int
    vendor: str = ""
    name: str = ""
    """The vendor's product text; generation A does not say it."""
    memory: int = 0
    """Bytes; generation A does not say it."""
    uma: bool = False
    """Its memory is the machine's own; generation A does not say it."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine as far as the agent offers it."""

    cpus: int = 0
    memory: int = 0
    """Bytes; generation A does not say it."""
    gpus: tuple[Gpu, ...] = ()
    """In device order. Generation A has one vendor for all of them."""


def read_machine(register: Fields) -> Machine:
    """The machine of an `agent_register`: `machine` of generation B, or `gpus`, `gpu_vendor`, `cpus` of A."""
    if "machine" not in register:
        vendor = register.text("gpu_vendor")
        gpus = tuple(Gpu(index, vendor) for index in register.integers("gpus"))
        return Machine(cpus=register.integer("cpus"), gpus=gpus)
    machine = register.child("machine")
    return Machine(
        cpus=machine.integer("cpus"),
        memory=machine.integer("memory"),
        gpus=tuple(_read_gpu(gpu) for gpu in machine.elements("gpus")),
    )


def write_machine(machine: Machine, generation: Generation) -> dict[str, Any]:
    """The members of an `agent_register` that say the same, as far as the generation can."""
    if generation == "A":
        vendor = machine.gpus[0].vendor if machine.gpus else ""
        return {"gpus": [gpu.index for gpu in machine.gpus], "gpu_vendor": vendor, "cpus": machine.cpus}
    gpus = [
        {"index": g.index, "vendor": g.vendor, "name": g.name, "memory": g.memory, "uma": g.uma}
        for g in machine.gpus
    ]
    return {"machine": {"memory": machine.memory, "cpus": machine.cpus, "gpus": gpus}}


def _read_gpu(gpu: Fields) -> Gpu:
    return Gpu(
        index=gpu.integer("index"),
        vendor=gpu.text("vendor"),
        name=gpu.text("name"),
        memory=gpu.integer("memory"),
        uma=gpu.flag("uma"),
    )
