"""Dates and times. A value that Python's type cannot hold exactly stays text.

These are infinity, years before 1 and after 9999, and 24:00. Only PostgreSQL's text survives a
round trip; the first or last date of Python's calendar would be a wrong date.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

from .interval import Interval


def decode_date(text: str) -> object:
    return date.fromisoformat(text)


def decode_time(text: str) -> object:
    # Newer versions of Python read the end of the day as its beginning.
    if text.startswith("24"):
        return text
    value = time.fromisoformat(text)
    return value if value.tzinfo is None else text


def decode_time_with_zone(text: str) -> object:
    if text.startswith("24"):
        return text
    value = time.fromisoformat(text)
    return text if value.tzinfo is None else value


def decode_timestamp(text: str) -> object:
    value = datetime.fromisoformat(text)
    return value if value.tzinfo is None else text


def decode_instant(text: str) -> object:
    """Decodes an instant in UTC, whatever the session's zone: an instant has no zone of its own."""
    value = datetime.fromisoformat(text)
    return text if value.tzinfo is None else value.astimezone(UTC)


def decode_interval(text: str) -> timedelta | Interval:
    """Decodes to a ``timedelta``, or to an `Interval` if that cannot hold it.

    A day counts as 24 hours, as when PostgreSQL compares intervals.
    """
    interval = Interval.from_text(text)
    try:
        return interval.to_timedelta()
    except (ValueError, OverflowError):
        return interval
