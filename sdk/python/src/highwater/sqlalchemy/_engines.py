"""Engines for a client of the caller."""

from __future__ import annotations

from typing import Any

import sqlalchemy
from sqlalchemy.engine import Engine
from sqlalchemy.ext import asyncio as sqlalchemy_asyncio
from sqlalchemy.ext.asyncio import AsyncEngine

from ..aio import AsyncHighwater
from ..client import Highwater
from ..dbapi import TransactionSettings


def create_engine(client: Highwater, *, transaction: TransactionSettings | None = None, **options: Any) -> Engine:
    """Creates a SQLAlchemy engine on a client.

    The engine does not close the client.

    Args:
        client: Client to use. Its `types` have no effect: SQLAlchemy's types determine the values.
        transaction: Settings of all transactions, such as `{"ack": "durable", "level": "region"}`.
        options: Further options of SQLAlchemy's `create_engine`.
    """
    return sqlalchemy.create_engine("highwater://", **_with(client, transaction, options))


def create_async_engine(
    client: AsyncHighwater, *, transaction: TransactionSettings | None = None, **options: Any
) -> AsyncEngine:
    """Creates an async SQLAlchemy engine on a client.

    The engine does not close the client.

    Args:
        client: Client to use. Its `types` have no effect: SQLAlchemy's types determine the values.
        transaction: Settings of all transactions, such as `{"ack": "durable", "level": "region"}`.
        options: Further options of SQLAlchemy's `create_async_engine`.
    """
    return sqlalchemy_asyncio.create_async_engine("highwater+async://", **_with(client, transaction, options))


def _with(client: object, transaction: TransactionSettings | None, options: dict[str, Any]) -> dict[str, Any]:
    given = {"client": client, "transaction": transaction, **options.get("connect_args", {})}
    return {**options, "connect_args": given}
