"""Engines of both kinds on the real system, with empty tables."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import sqlalchemy
from sqlalchemy.engine import URL, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.ext.asyncio import create_async_engine as create_async_engine_of_url

import highwater.sqlalchemy
from highwater import dbapi
from tests.sqlalchemy.models import Base
from tests.system import System


def cause_of(caught: pytest.ExceptionInfo[DBAPIError]) -> dbapi.Error:
    """The error of PEP 249 behind SQLAlchemy's."""
    cause = caught.value.orig
    assert isinstance(cause, dbapi.Error)
    return cause


def url_of(system: System, name: str = "highwater") -> URL:
    endpoints = system.endpoints
    query = {
        "host": [each.gateway for each in endpoints],
        "tracker": [each.tracker for each in endpoints],
        "total_timeout": "60",
    }
    return URL.create(name, query=query)


@pytest.fixture
def engine(system: System) -> Iterator[Engine]:
    engine = sqlalchemy.create_engine(url_of(system))
    Base.metadata.create_all(engine)
    with engine.connect() as connection:
        for table in reversed(Base.metadata.sorted_tables):
            connection.execute(table.delete())
        connection.commit()
        # A test that loses what it commits would else lose this, too, and find the rows of the one before.
        highwater.sqlalchemy.durable(connection, level="global", timeout=60)
    yield engine
    engine.dispose()


@pytest.fixture
def near_engine(engine: Engine, system: System) -> Iterator[Engine]:
    """Of one region, for transactions of one request.

    With others to go to, the client would take a busy machine's slowness for a failure, send again, and get no results.
    """
    near = system.endpoints[0]
    query = {"host": near.gateway, "tracker": near.tracker, "request_timeout": "60", "total_timeout": "60"}
    own = sqlalchemy.create_engine(engine.url.set(query=query))
    yield own
    own.dispose()


@pytest.fixture
async def async_engine(engine: Engine, system: System) -> AsyncIterator[AsyncEngine]:
    """Beside a sync one, which has made the tables."""
    own = create_async_engine_of_url(url_of(system, "highwater+async"))
    yield own
    await own.dispose()
