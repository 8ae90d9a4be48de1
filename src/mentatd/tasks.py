"""The one way to start an asyncio task: it has an owner that keeps it, logs its crash and ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from mentatd.log import log


class Tasks:
    """Tasks of one owner. A crash is logged as `task_crashed` and ends only that task."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run `work` until it ends or the owner closes. Raises RuntimeError once the owner is closed."""
        if self._closed:
            work.close()
            raise RuntimeError(f"{self._owner} is closed")
        task = asyncio.get_running_loop().create_task(work, name=f"{self._owner}:{name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log("task_crashed", task=task.get_name(), error=f"{type(error).__name__}: {error}")

    async def close(self) -> None:
        """Cancel what still runs and wait until all of it has ended."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
