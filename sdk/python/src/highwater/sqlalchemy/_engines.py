"""Engines of a client that the caller has."""

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
    """SQLAlchemy's `create_engine` for a client, which stays the caller's to close.

    Args:
        client: Its `types` do not count here: values become what SQLAlchemy's types say.
        transaction: For all transactions, as `{"ack": "durable", "level": "region"}`.
        options: What else SQLAlchemy's takes.
    """
    return sqlalchemy.create_engine("highwater://", **_with(client, transaction, options))


def create_async_engine(
    client: AsyncHighwater, *, transaction: TransactionSettings | None = None, **options: Any
) -> AsyncEngine:
    """SQLAlchemy's `create_async_engine` for a client, which stays the caller's to close.

    Args:
        client: Its `types` do not count here: values become what SQLAlchemy's types say.
        transaction: For all transactions, as `{"ack": "durable", "level": "region"}`.
        options: What else SQLAlchemy's takes.
    """
    return sqlalchemy_asyncio.create_async_engine("highwater+async://", **_with(client, transaction, options))


def _with(client: object, transaction: TransactionSettings | None, options: dict[str, Any]) -> dict[str, Any]:
    given = {"client": client, "transaction": transaction, **options.get("connect_args", {})}
    return {**options, "connect_args": given}
