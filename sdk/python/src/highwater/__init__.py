"""PostgreSQL transactions that commit at once, become durable soon and are never silently lost.

`AsyncHighwater` has the same calls for asyncio. Times are in seconds. The errors are defined in
`highwater.errors` and can also be imported from here.

Example:
    from highwater import Highwater, TransactionLostError, sql

    with Highwater("https://highwater.example") as hw:
        tx = hw.transaction(sql("UPDATE account SET balance = balance - {amount} WHERE id = {id}", amount=10, id=1))
        try:
            tx.durable(level="region", timeout=5)
            print("durable")
        except TransactionLostError as error:
            print("lost: none of its changes exist", error.transaction_id)
"""

from ._core.ids import new_transaction_id
from ._core.observer import ObservedEnd, ObservedEvent, Observer
from ._core.sql import Sql, StatementInput, sql
from ._core.wire import (
    AtRisk,
    Evidence,
    Field,
    Marks,
    Position,
    ReachedLimit,
    RefusedToken,
    Served,
    Statement,
    TransactionStatus,
    Verdict,
)
from ._core.wire_types import Isolation, Outcome, Retry, TransactionState, ValueAtRisk
from ._observers import log_events, print_events
from ._options import (
    BeginOptions,
    Cancellation,
    CommitOptions,
    Endpoint,
    TransactionOptions,
    TransactOptions,
)
from ._promise import Listener
from ._values import (
    Interval,
    Multirange,
    Range,
    Row,
    StatementResult,
    TypeDecoder,
    TypeDecoders,
    decode_array,
    decode_value,
)
from ._watcher import Exposure, LiveState, Subscriber
from .aio import AsyncDurabilityPromise, AsyncHighwater, AsyncInteractiveTransaction, AsyncSession, AsyncTransaction
from .client import DurabilityPromise, Highwater, InteractiveTransaction, Session, Transaction
from .errors import (
    ConstraintError,
    DurabilityTimeoutError,
    ExposureLimitError,
    HighwaterError,
    InvalidRequestError,
    NoAnswerError,
    PromiseBrokenError,
    SerializationError,
    StatementError,
    TokenRefusedError,
    TransactionAbortedError,
    TransactionLostError,
    UnavailableError,
    UnknownOutcomeError,
)

__all__ = [
    "AsyncDurabilityPromise",
    "AsyncHighwater",
    "AsyncInteractiveTransaction",
    "AsyncSession",
    "AsyncTransaction",
    "AtRisk",
    "BeginOptions",
    "Cancellation",
    "CommitOptions",
    "ConstraintError",
    "DurabilityPromise",
    "DurabilityTimeoutError",
    "Endpoint",
    "Evidence",
    "Exposure",
    "ExposureLimitError",
    "Field",
    "Highwater",
    "HighwaterError",
    "InteractiveTransaction",
    "Interval",
    "InvalidRequestError",
    "Isolation",
    "Listener",
    "LiveState",
    "Marks",
    "Multirange",
    "NoAnswerError",
    "ObservedEnd",
    "ObservedEvent",
    "Observer",
    "Outcome",
    "Position",
    "PromiseBrokenError",
    "Range",
    "ReachedLimit",
    "RefusedToken",
    "Retry",
    "Row",
    "SerializationError",
    "Served",
    "Session",
    "Sql",
    "Statement",
    "StatementError",
    "StatementInput",
    "StatementResult",
    "Subscriber",
    "TokenRefusedError",
    "TransactOptions",
    "Transaction",
    "TransactionAbortedError",
    "TransactionLostError",
    "TransactionOptions",
    "TransactionState",
    "TransactionStatus",
    "TypeDecoder",
    "TypeDecoders",
    "UnavailableError",
    "UnknownOutcomeError",
    "ValueAtRisk",
    "Verdict",
    "decode_array",
    "decode_value",
    "log_events",
    "new_transaction_id",
    "print_events",
    "sql",
]
