"""The outside world for the core: clocks, randomness and diagnostics, all given by the client."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]


class Log(Protocol):
    """Receives diagnostics. Nothing in the package depends on what it does with them."""

    def __call__(self, level: LogLevel, message: str, fields: Mapping[str, object], /) -> None: ...


def no_log(level: LogLevel, message: str, fields: Mapping[str, object], /) -> None:
    """Discards the message."""


def _monotonic_ms() -> float:
    return time.monotonic_ns() / 1_000_000


def _wall_ms() -> float:
    return time.time_ns() / 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    monotonic_ms: Callable[[], float] = _monotonic_ms
    """Milliseconds of a clock that never goes back, for durations."""
    wall_ms: Callable[[], float] = _wall_ms
    """Milliseconds since 1970, only for reading dates that the service sends."""
    random: Callable[[], float] = random.random
    """From 0 to 1, for jitter, never for ids."""
    log: Log = no_log


DEFAULT_RUNTIME: Final = Runtime()
