"""The errors of this package.

Check `code`: codes are API, messages are not. `outcome` says whether the transaction was applied.

HighwaterError
├── InvalidRequestError         the request is wrong: fix the caller
│   └── TokenRefusedError       a tracker does not judge this token for this caller; `token`
├── StatementError              the database refused a statement
│   ├── ConstraintError         a statement violates a constraint; `constraint` names it
│   └── SerializationError      a conflict: run the whole body again with a new id
├── UnavailableError            the service cannot do it now: wait
│   ├── NoAnswerError         no answer, or one that cannot be understood
│   └── ExposureLimitError      too much is committed but not durable; `limit` and `exposure`
├── UnknownOutcomeError         it may or may not have committed; look up `transaction_id`
├── TransactionAbortedError     this id has not committed and never will
├── TransactionLostError        it was committed, and a failure discarded it; `verdict`
├── PromiseBrokenError          it was durable, and a failure discarded it all the same; `verdict`
└── DurabilityTimeoutError      still pending when the wait ended; not a loss; `token`
"""

from ._core.errors import (
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
    "ConstraintError",
    "DurabilityTimeoutError",
    "ExposureLimitError",
    "HighwaterError",
    "InvalidRequestError",
    "NoAnswerError",
    "PromiseBrokenError",
    "SerializationError",
    "StatementError",
    "TokenRefusedError",
    "TransactionAbortedError",
    "TransactionLostError",
    "UnavailableError",
    "UnknownOutcomeError",
]
