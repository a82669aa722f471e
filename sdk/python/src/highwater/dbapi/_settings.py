"""Settings of a connection's transactions, and who may follow their outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypedDict

from .._core.wire_types import Ack, Mode
from .._promise import BasePromise


class TransactionSettings(TypedDict, total=False):
    """How a connection's transactions run and when their commits are answered, besides isolation.

    The settings are those of ``hw.transaction``.
    """

    ack: Ack | None
    """``durable``: a commit returns when durable at the level; it raises after a loss or a timeout.
    """
    level: str | None
    """Level of the transactions. Default: the client's."""
    max_wait_ms: float | None
    """With ``ack="durable"``: milliseconds that the service waits before it answers.

    The connection then waits on.
    """
    max_delay_ms: float | None
    """Milliseconds after which the trackers send an event ``transaction.delayed``.

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
