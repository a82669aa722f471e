"""SQLAlchemy's bridge from its sync code to what is awaited, by the names of its versions."""

from __future__ import annotations

from sqlalchemy.util.concurrency import in_greenlet

try:
    from sqlalchemy.util.concurrency import await_
except ImportError:  # of 2.0
    from sqlalchemy.util.concurrency import await_only as await_

__all__ = ["await_", "in_greenlet"]
