"""PostgreSQL's interval: months, days and time, which only a calendar can convert."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from .._core.wire_types import Param

_MICROSECONDS_OF: Final = {"hours": 3_600_000_000, "minutes": 60_000_000, "seconds": 1_000_000}
_POSTGRES: Final = re.compile(
    r"(?:(?P<years>[+-]?\d+) years?)?(?: ?(?P<months>[+-]?\d+) mons?)?(?: ?(?P<days>[+-]?\d+) days?)?"
    r"(?: ?(?P<sign>[+-]?)(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d)(?:\.(?P<fraction>\d{1,6}))?)?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval that ``timedelta`` cannot hold, because it has months or is too long.

    A month has no fixed length, so intervals have no arithmetic. ``str()`` gives PostgreSQL's text.
    An interval can be a parameter.
    """

    months: int = 0
    """Months; a year counts as twelve."""
    days: int = 0
    """Days, of any length."""
    microseconds: int = 0
    """Hours, minutes and seconds, in microseconds."""

    @classmethod
    def from_text(cls, text: str) -> Interval:
        """Reads an interval that PostgreSQL wrote with ``IntervalStyle`` ``postgres``.

        Args:
            text: ``1 year 2 mons 3 days 04:05:06.789``, or a part of it.

        Errors: ``ValueError`` for any other text.
        """
        parts = _POSTGRES.fullmatch(text)
        if parts is None or text == "":
            raise ValueError(f"not an interval of IntervalStyle postgres: {text!r}")
        hours = sum(int(parts[unit] or 0) * factor for unit, factor in _MICROSECONDS_OF.items())
        time = hours + int((parts["fraction"] or "").ljust(6, "0"))
        return cls(
            months=int(parts["years"] or 0) * 12 + int(parts["months"] or 0),
            days=int(parts["days"] or 0),
            microseconds=-time if parts["sign"] == "-" else time,
        )

    @classmethod
    def from_timedelta(cls, value: timedelta) -> Interval:
        """Converts a timedelta.

        Days and time get the same sign, as in PostgreSQL's difference of two timestamps.

        Args:
            value: Timedelta of any length.
        """
        total = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
        days, time = divmod(abs(total), 86_400_000_000)
        return cls(days=days, microseconds=time) if total >= 0 else cls(days=-days, microseconds=-time)

    def to_timedelta(self) -> timedelta:
        """Converts the interval to a timedelta; a day counts as 24 hours.

        Errors: ``ValueError`` with months, ``OverflowError`` beyond ``timedelta.max``.
        """
        if self.months != 0:
            raise ValueError("an interval with months has no fixed length")
        return timedelta(days=self.days, microseconds=self.microseconds)

    def __highwater_param__(self) -> Param:
        return str(self)

    def __str__(self) -> str:
        time, fraction = divmod(abs(self.microseconds), 1_000_000)
        sign = "-" if self.microseconds < 0 else ""
        clock = f"{sign}{time // 3600:02}:{time // 60 % 60:02}:{time % 60:02}.{fraction:06}"
        return f"{self.months} mons {self.days} days {clock}"
