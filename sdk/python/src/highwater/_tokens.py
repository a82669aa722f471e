"""Reads the token that the PostgreSQL wire sent to a driver's connection.

Owns how each driver keeps what the server reports. Imports none of them.
"""

from __future__ import annotations

from typing import Any

from ._core.errors import InvalidRequestError, usage_error

_NAME = "highwater.token"
_PIPELINE_OFF = 0


def driver_connection(connection: Any) -> Any:
    """Returns the driver's connection: itself, or that of a connection of SQLAlchemy."""
    if hasattr(connection, "pgconn") or hasattr(connection, "get_settings"):
        return connection
    sync = getattr(connection, "sync_connection", connection)
    pooled = getattr(sync, "connection", sync)
    return getattr(pooled, "driver_connection", connection)


def token_of(connection: object) -> str:
    """Returns the token of the connection's last transaction. Errors: `no_token`."""
    driver = driver_connection(connection)
    if hasattr(driver, "pgconn"):
        if driver.pgconn.pipeline_status != _PIPELINE_OFF:
            raise _no_token("it may be one of several that the pipeline holds; leave the pipeline first")
        token = driver.info.parameter_status(_NAME)
    elif hasattr(driver, "get_settings"):
        token = getattr(driver.get_settings(), _NAME, None)
    else:
        raise usage_error("invalid_options", f"a {type(driver).__name__} is not a connection of psycopg or asyncpg")
    if not token:
        raise _no_token("the server sent none")
    return str(token)


def _no_token(why: str) -> InvalidRequestError:
    return usage_error(
        "no_token",
        f"no token for the connection's last transaction: {why}. With highwater.ack = durable, the default, the answer "
        "to COMMIT already means durable. For a token, SET highwater.ack = 'commit' and commit through a gateway",
    )
