"""SQLAlchemy's bridge from synchronous code to awaitables, for each of its versions."""

from __future__ import annotations

from sqlalchemy.util.concurrency import in_greenlet

try:
    from sqlalchemy.util.concurrency import await_
except ImportError:  # SQLAlchemy 2.0
    from sqlalchemy.util.concurrency import await_only as await_

__all__ = ["await_", "in_greenlet"]
