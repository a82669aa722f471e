"""Every test of this folder runs with both clients."""

from collections.abc import AsyncIterator

import pytest

from tests.client.world import World


@pytest.fixture(params=["sync", "async"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    world = World(request.param)
    yield world
    await world.close()
