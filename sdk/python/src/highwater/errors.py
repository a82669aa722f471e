"""The errors of this package. Check `code`: it is API, and messages are not. `outcome` says whether it was applied.

HighwaterError
├── InvalidRequestError         the request itself is wrong: fix the caller
│   └── TokenRefusedError       a tracker does not judge this token for this caller; `token`
├── StatementError              the database refused a statement
│   ├── ConstraintError         a constraint is violated; `constraint` names it
│   └── SerializationError      conflicted with another transaction: run the whole body again, with a new id
├── UnavailableError            the service cannot do it now: wait
│   ├── ConnectionError         no answer, or none that can be understood
│   └── ExposureLimitError      too much is committed and not durable yet; `limit` and `exposure` say how much
├── UnknownOutcomeError         it may or may not have committed; `transaction_id` is the id to ask about
├── TransactionAbortedError     this id never committed and never will
├── TransactionLostError        was committed, and is gone after a failure; `verdict` says how that is known
├── PromiseBrokenError          was durable at the level, and a failure that the level covers took it all the same
└── DurabilityTimeoutError      still pending when the wait ended; nothing is lost
"""

from ._core.errors import (
    ConnectionError,  # noqa: A004 - the name in every SDK
    ConstraintError,
    DurabilityTimeoutError,
    ExposureLimitError,
    HighwaterError,
    InvalidRequestError,
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
    "ConnectionError",
    "ConstraintError",
    "DurabilityTimeoutError",
    "ExposureLimitError",
    "HighwaterError",
    "InvalidRequestError",
    "PromiseBrokenError",
    "SerializationError",
    "StatementError",
    "TokenRefusedError",
    "TransactionAbortedError",
    "TransactionLostError",
    "UnavailableError",
    "UnknownOutcomeError",
]
