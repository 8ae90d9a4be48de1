"""What the tests of token counting share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.serve.tokens.counting import Counting, counting


@pytest.fixture
async def router() -> AsyncIterator[Counting]:
    async with counting() as router:
        yield router
