"""What the tests of the merge share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mentatd.http.client import Client
from mentatd.http.pool import Pool


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """The router's client, on a pool of its own."""
    pool = Pool()
    yield Client(pool)
    await pool.close()
