"""What sees the transactions of the request that the caller serves: the scope of an output gate."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final, Protocol

from ._promise import BasePromise


class Witness(Protocol):
    """Called by the clients, in the task or thread of the caller."""

    def committed(self, client: object, promise: BasePromise) -> None:
        """Takes a transaction that has committed."""

    def opened(self, client: object, transaction: Any) -> None:
        """Takes an interactive transaction that has begun."""

    def failed(self, client: object, error: BaseException) -> None:
        """Takes the error of a transaction or statement."""


witness: Final[ContextVar[Witness | None]] = ContextVar("highwater_witness", default=None)
