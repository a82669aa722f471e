"""What the failure of a request about a transaction says about the transaction itself."""

from __future__ import annotations

from typing import Final, TypeVar

from .._core.errors import HighwaterError, fresh
from .._core.wire_types import Outcome

E = TypeVar("E", bound=BaseException)

_OF_TRANSACTION: Final = frozenset(
    (
        "transaction_aborted",
        "transaction_expired",
        "transaction_lost",
        "transaction_unknown",
        "promise_broken",
        "id_expired",
        "id_reused",
    )
)


def is_of_transaction(error: BaseException) -> bool:
    """Whether the error is about the transaction. All others are about a request."""
    return isinstance(error, HighwaterError) and error.code in _OF_TRANSACTION


def with_outcome(error: E, transaction_id: str, outcome: Outcome) -> E:
    """Returns the failure of a request as an error of its transaction, which has this outcome.

    The same failure may be that of other transactions, too.
    """
    if not isinstance(error, HighwaterError):
        return error
    own = fresh(error)
    own.outcome = outcome
    own.transaction_id = transaction_id
    if error.retry not in {"wait", "never"}:
        # Another id would run the body a second time, and a look-up finds nothing of what never
        # began.
        own.retry = "wait" if outcome == "applied" else "transaction"
    own.__cause__ = error
    return own
