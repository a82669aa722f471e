"""Every bound and delay of the package that is not an option of a call. Times in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    backoff_base_ms: float = 100
    """First limit of the jittered delay between attempts; it doubles up to ``backoff_max_ms``."""
    backoff_max_ms: float = 5_000
    attempt_min_ms: float = 250
    """No attempt is begun with less time than this: cut short, it would make a known outcome unknown."""
    probe_ms: float = 750
    """Where there is another endpoint, one that says nothing for so long must give a sign of life."""
    pinned_attempts: int = 4
    """How often a call of an open transaction is sent to a gateway that does not answer."""
    pinned_patience: int = 4
    """How many times ``probe_ms`` a gateway that has an open transaction may take to give a sign of life."""
    conflict_base_ms: float = 10
    """First limit of the jittered delay before a conflict is run again; doubles up to ``backoff_max_ms``."""
    cooldown_base_ms: float = 1_000
    """How long an endpoint that failed is passed over at first, and at most."""
    cooldown_max_ms: float = 60_000
    stream_idle_ms: float = 2_000
    """The stream closes this long after the last promise was settled; a script can exit then."""
    stream_open_ms: float = 5_000
    """How long a stream may take to say its first word."""
    stream_silence_ms: float = 15_000
    """Silence after which a stream counts as dead. Trackers send a comment every five seconds."""
    poll_base_ms: float = 100
    """Where streams do not come through, marks are asked for: so often while they rise, and rarer while they do not."""
    poll_max_ms: float = 2_000
    poll_for_ms: float = 60_000
    """How long marks are asked for before a stream is tried again."""
    verdict_wait_ms: float = 5_000
    """How long a tracker may hold a request for verdicts that are still pending."""
    verdict_batch: int = 1_000
    verdict_requests_max: int = 4
    recheck_ms: float = 15_000
    """A promise that has waited this long is asked about even when nothing says that it must be."""


DEFAULT_TUNING: Final = Tuning()
