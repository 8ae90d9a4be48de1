"""Imports point downward only (docs/design.md "Rooms")."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src"

BASE = {"errors", "log", "origin", "tasks", "version"}
PURE = {"wire": {"errors"}, "cluster": {"errors", "origin", "wire"}}
COMPANION = BASE | {"wire", "http", "link", "environment", "options", "lifetime", "notify"}
ROOMS = PURE | {
    "version": set(),
    "errors": set(),
    "origin": set(),
    "log": set(),
    "tasks": {"log"},
    "notify": {"log"},
    "environment": {"errors"},
    "options": {"errors", "environment", "version"},
    "values": {"errors", "environment", "cluster"},
    "settings": {"errors", "environment", "cluster", "values"},
    "link": {"errors", "wire"},
    "lifetime": {"errors"},
    "http": BASE,
    "serve": BASE | {"wire", "cluster", "http", "settings"},
    "lite": COMPANION | {"settings"},
    "register": COMPANION,
    "demo": COMPANION | {"settings"},
    "cli": COMPANION | {"settings", "serve", "lite", "register", "demo"},
}
"""Each room, a package or a single module of `mentatd`, and what else of `mentatd` it may import. `version` stands
for the package itself, which holds nothing but its version."""

IMPURE = {
    *("asyncio", "concurrent", "http", "logging", "multiprocessing", "os", "pathlib", "psutil", "random"),
    *("secrets", "select", "signal", "socket", "ssl", "subprocess", "sys", "threading", "time", "uvloop"),
}
"""What reaches a clock, a socket, the environment or a log; no decision does."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SRC.rglob("*.py")):
        name = ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")
        yield name, ast.parse(path.read_text(), filename=str(path))


MODULES = dict(modules())


def imports(tree: ast.AST) -> Iterator[str]:
    """The modules that `tree` imports, at its top and inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module
            assert node.level == 0, "relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES else node.module


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else "version"


@pytest.mark.parametrize("name", MODULES)
def test_a_room_imports_only_lower_rooms(name: str) -> None:
    here = room(name)
    ours = {room(module) for module in imports(MODULES[name]) if module.split(".")[0] == "mentatd"}
    assert ours - {here} <= ROOMS[here], f"{name} may not import {ours - {here} - ROOMS[here]}"


@pytest.mark.parametrize("name", [name for name in MODULES if room(name) in PURE])
def test_decisions_reach_no_clock_socket_environment_or_log(name: str) -> None:
    assert not {module.split(".")[0] for module in imports(MODULES[name])} & IMPURE


def test_no_import_goes_round() -> None:
    top = {
        name: {
            module
            for statement in tree.body
            if isinstance(statement, ast.Import | ast.ImportFrom)
            for module in imports(statement)
            if module in MODULES
        }
        for name, tree in MODULES.items()
    }
    graphlib.TopologicalSorter(top).prepare()


def test_every_room_is_in_the_table() -> None:
    assert {room(name) for name in MODULES} == set(ROOMS)
