"""All limits and delays of the package that are not options of a call. Times in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    backoff_base_ms: float = 100
    """First limit of the jittered delay between attempts; it doubles up to ``backoff_max_ms``."""
    backoff_max_ms: float = 5_000
    attempt_min_ms: float = 250
    """No attempt begins with less time: cut short, it would make a known outcome unknown."""
    probe_ms: float = 750
    """If there is another endpoint, one that is silent this long must give a sign of life."""
    gather_ms: float = 1
    """Least time between requests with transactions, unless one is answered or full before."""
    pinned_attempts: int = 4
    """How often a call of an open transaction is sent to a gateway that does not answer."""
    pinned_patience: int = 4
    """Multiple of ``probe_ms`` that a gateway with an open transaction has for a sign of life."""
    conflict_base_ms: float = 10
    """First limit of the jittered delay after a conflict; it doubles up to ``backoff_max_ms``."""
    cooldown_base_ms: float = 1_000
    """How long a failed endpoint is skipped at first; ``cooldown_max_ms`` is the maximum."""
    cooldown_max_ms: float = 60_000
    stream_idle_ms: float = 2_000
    """The stream closes this long after the last promise was settled, so that a script can exit."""
    stream_open_ms: float = 5_000
    """How long a stream may take to send its first bytes."""
    stream_open_after_blind_ms: float = 1_000
    """The same after a blind tracker. At a failover all trackers are blind for a moment, and that
    of the lost region does not answer.
    """
    stream_silence_ms: float = 15_000
    """Silence after which a stream counts as dead. Trackers send a comment every five seconds."""
    poll_base_ms: float = 100
    """Interval of polling for marks if streams do not come through, longer while marks do not rise.
    """
    poll_max_ms: float = 2_000
    poll_for_ms: float = 60_000
    """How long the client polls before it tries a stream again."""
    verdict_wait_ms: float = 5_000
    """How long a tracker may hold a request for verdicts that are still pending."""
    verdict_batch: int = 1_000
    verdict_requests_max: int = 4
    recheck_ms: float = 15_000
    """Age at which a tracker is asked about a promise, even if nothing requires it."""


DEFAULT_TUNING: Final = Tuning()
