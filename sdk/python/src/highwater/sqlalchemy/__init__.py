"""SQLAlchemy over Highwater: ORM and Core as with PostgreSQL, plus `durable(session)`.

Needs `highwater-sdk[sqlalchemy]`. The dialect's name is `postgresql`; its connections are those of
`highwater.dbapi`. SQLAlchemy also finds it by URL: `highwater://:API_KEY@highwater.example`, or
`highwater+async://…` for async engines.

Example:
    from sqlalchemy import text
    from sqlalchemy.orm import Session

    from highwater.sqlalchemy import create_engine, durable

    engine = create_engine(hw)
    with Session(engine) as session:
        session.execute(text("INSERT INTO note VALUES (:text)"), {"text": "hello"})
        session.commit()
        durable(session, level="region", timeout=10)
    engine.dispose()
"""

from sqlalchemy.dialects import registry

from ..dbapi import TransactionSettings
from ._durability import committed, durable, on_lost, token
from ._engines import create_async_engine, create_engine
from ._memory import follow_sessions
from ._transact import transact

# Entry points make an installed package known; a folder on the path has none.
registry.register("highwater", "highwater.sqlalchemy._dialect", "HighwaterDialect")
registry.register("highwater.async", "highwater.sqlalchemy._dialect", "AsyncHighwaterDialect")
follow_sessions()

__all__ = [
    "TransactionSettings",
    "committed",
    "create_async_engine",
    "create_engine",
    "durable",
    "on_lost",
    "token",
    "transact",
]
