"""Chooses the next address: nearest first, skipping one that failed for a while.

No I/O, no clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .tuning import Tuning


@dataclass(slots=True)
class _Standing:
    url: str
    failures: int = 0
    rest_until_ms: float = -math.inf


class EndpointPool:
    """A pool that threads may share.

    Each change is one assignment, and a stale read costs one attempt at a worse address.
    """

    __slots__ = ("_standings", "_tuning")

    def __init__(self, urls: Sequence[str], tuning: Tuning) -> None:
        self._standings = tuple(_Standing(url) for url in dict.fromkeys(urls))
        self._tuning = tuning

    @property
    def size(self) -> int:
        return len(self._standings)

    def pick(self, now_ms: float) -> str:
        """Returns the nearest address that is not resting; if all are, the first to come back."""
        for standing in self._standings:
            if standing.rest_until_ms <= now_ms:
                return standing.url
        return min(self._standings, key=lambda standing: standing.rest_until_ms).url

    def has_awake(self, now_ms: float) -> bool:
        """Whether some address is not resting, so that a failed request can go there at once."""
        return any(standing.rest_until_ms <= now_ms for standing in self._standings)

    def succeeded(self, url: str) -> None:
        standing = self._find(url)
        if standing is not None and standing.failures:
            standing.failures = 0
            standing.rest_until_ms = -math.inf

    def failed(self, url: str, now_ms: float) -> None:
        standing = self._find(url)
        if standing is None:
            return
        tuning = self._tuning
        standing.rest_until_ms = now_ms + min(
            tuning.cooldown_max_ms, tuning.cooldown_base_ms * 2.0 ** min(standing.failures, 20)
        )
        standing.failures += 1

    def _find(self, url: str) -> _Standing | None:
        return next((standing for standing in self._standings if standing.url == url), None)
