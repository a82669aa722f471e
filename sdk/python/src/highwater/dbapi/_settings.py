"""Settings of a connection's transactions, and who may follow their outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypedDict

from .._core.requests import OnTimeout
from .._core.wire_types import Ack, Mode
from .._promise import BasePromise


class TransactionSettings(TypedDict, total=False):
    """How a connection's transactions run and when their commits are answered, besides isolation.

    The settings are those of ``hw.transaction``.
    """

    ack: Ack | None
    """``durable``: a commit returns when durable at the level.

    If it does not become durable in time, the commit raises an error whose ``orig`` is the client's
    ``DurabilityTimeoutError``.
    """
    level: str | None
    """Level of the transactions. Default: the client's."""
    max_wait: float | None
    """With ``ack="durable"``: how long to wait after the commit, in seconds; at most 60.

    Default: as long as a call may take.
    """
    on_timeout: OnTimeout | None
    """With ``ack="durable"``: what ends a wait without durability.

    ``error`` (default) raises; with ``pending`` the commit returns.
    """
    max_attempts: int
    """With ``autocommit``: maximum number of runs of a statement that conflicts. Default: 10."""
    max_delay: float | None
    """Seconds after which the trackers send an event ``transaction.delayed``.

    They send it if a transaction is not durable by then.
    """
    metadata: Mapping[str, str] | None
    """Metadata for webhooks about the transactions."""
    timeout: float | None
    """Time limit for all attempts of a call, and for the wait of ``ack="durable"``, in seconds.

    Default: the client's.
    """
    after: str | None
    """With ``autocommit`` and ``read_only``: a token whose effects the read must see."""
    mode: Mode | None
    """With ``autocommit`` and ``read_only``: ``local`` may read from a replica near the gateway."""


class Follower(Protocol):
    """Receives the outcomes of a connection's transactions."""

    def committed(self, client: Any, transaction: BasePromise, /) -> None:
        """Called when a transaction has committed.

        Args:
            client: The client that ran it.
            transaction: The transaction, with its ``token``, ``durable()`` and ``on_lost()``.
        """

    def failed(self, error: BaseException, /) -> None:
        """Called when an error has ended a transaction.

        Args:
            error: The client's error.
        """
