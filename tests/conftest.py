"""Every async test runs on uvloop, may not block it, and may leave neither tasks nor sockets behind."""

from __future__ import annotations

import asyncio
import re
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import blockbuster
import hypothesis
import pytest
import pytest_asyncio
import uvloop

from mentatd.http import reading
from tests.support.leaks import leaked_sockets, leaked_tasks, open_sockets, settle

# Two cores are shared with other work: the clock is no judge of a property.
hypothesis.settings.register_profile("suite", deadline=None, print_blob=True)
hypothesis.settings.load_profile("suite")


class Loop(uvloop.Loop):
    """uvloop's loop, which tells the test of what it would only have logged."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[str] = []
        """What went wrong in callbacks and tasks that nobody awaits."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, pytest.fail.Exception):
            # pytest-timeout's alarm, raised in a callback of uvloop's own: make it reach the test
            for task in asyncio.all_tasks(self):
                task.cancel(str(error))
        if self.get_exception_handler() is None:
            self.errors.append(f"{context.get('message')}: {error!r}")
        super().call_exception_handler(context)

    def close(self) -> None:
        # as an error, a warning about an open transport would be raised while it is closed, and hang the loop
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            super().close()
        for warning in caught:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": Loop}


COMPILED = not reading.__file__.endswith(".py")
THROW = "the (type, exc, tb) signature of throw() is deprecated"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--compiled", action="store_true", help="insist on the compiled build of mentatd")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--compiled") and not COMPILED:
        raise pytest.UsageError(f"not compiled: {reading.__file__}")
    if COMPILED:
        # from Python 3.12 on, of each exception that mypyc's runtime passes into an await (mypyc's issue 1214)
        config.addinivalue_line("filterwarnings", f"ignore:{re.escape(THROW)}:DeprecationWarning")


def pytest_report_header() -> str:
    return f"mentatd: {'compiled' if COMPILED else 'plain Python'}, {reading.__file__}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if COMPILED and item.get_closest_marker("interpreted"):
            item.add_marker(pytest.mark.skip(reason="the build under test is compiled"))


@pytest.fixture(scope="session")
def guard() -> blockbuster.BlockBuster:
    """Raises BlockingError where code of `mentatd` blocks the event loop; a test's own code and threads may."""
    guard = blockbuster.BlockBuster("mentatd")
    for function in guard.functions.values():
        # a first use that imports reads files, once a process
        function.can_block_in("<frozen importlib._bootstrap>", "_find_and_load")
    return guard


@pytest.fixture(autouse=True)
def clean(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves tasks or sockets behind, or blocks the loop."""
    if pytest_asyncio.is_async_test(request.node):
        request.getfixturevalue("clean_loop")
        yield
        return
    before = open_sockets()
    yield
    if leaks := leaked_sockets(before):
        pytest.fail("left behind:\n" + "\n".join(leaks), pytrace=False)


@pytest.fixture
async def clean_loop(guard: blockbuster.BlockBuster) -> AsyncIterator[None]:
    """`clean` for a test that runs in an event loop."""
    tasks, sockets = asyncio.all_tasks(), open_sockets()
    guard.activate()
    yield
    guard.deactivate()
    loop, here = asyncio.get_running_loop(), asyncio.current_task()
    assert isinstance(loop, Loop)
    left = await settle(lambda: leaked_tasks(here, tasks) + leaked_sockets(sockets))
    if wrong := loop.errors + left:
        pytest.fail("left behind:\n" + "\n".join(wrong), pytrace=False)


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Name a parameter of raw bytes by its place: compressed ones differ from process to process."""
    opaque = isinstance(val, bytes) and not (val.isascii() and val.decode().isprintable())
    return argname if opaque else None
