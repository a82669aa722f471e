"""Generated (make gen) from packages/protocol: what goes over the wire."""
from typing import Annotated, Literal, NotRequired, TypeAlias, TypedDict
Uuid: TypeAlias = Annotated[str, "Uuid"]
OffsetText: TypeAlias = Annotated[str, "OffsetText"]
Ack: TypeAlias = Literal["commit", "durable"]
"""`commit`: answer at the commit point. `durable`: answer when the transaction is durable at the level."""
Mode: TypeAlias = Literal["primary", "local"]
"""Only with `readOnly`: where the transaction runs. `local`: on a replica in the gateway's region, if one can serve it; the default with `after` and with `reads: durable`."""
Reads: TypeAlias = Literal["committed", "durable"]
"""`durable`, only with `readOnly`: the answer has rows only when everything that the read saw is durable at the level. Otherwise it is 503 `read_unconfirmed` after `maxWaitMs`. `committed`: as `ack` says."""
class Field(TypedDict):
    name: str
    oid: int
class Refusal(TypedDict):
    code: Literal["invalid_token", "forbidden"]
    detail: str
Outcome: TypeAlias = Literal["not_applied", "applied", "unknown"]
"""What became of the transaction that an error is about."""
Retry: TypeAlias = Literal["never", "transaction", "resolve_outcome", "wait"]
"""What a caller may do after an error. `never`: the request itself is wrong. `transaction`: run the whole body again, with a new id. `resolve_outcome`: ask for the state, or send the same id again. `wait`: send the same again later."""
Isolation: TypeAlias = Literal["serializable", "repeatable read", "read committed"]
"""The isolation level, by PostgreSQL's names. Default: `serializable`; for a read with `after` or `mode: local`, which may run on a replica, `repeatable read`."""
Param: TypeAlias = str | float | bool | None
"""A value as PostgreSQL's text. Send a number as a string if a 64-bit float cannot hold it exactly."""
TransactionState: TypeAlias = Literal["active", "committed", "pending", "durable", "lost", "aborted", "broken", "expired", "unknown"]
"""What became of a transaction. `active`: it is open or runs. `committed`: durability was not asked about. `pending`: committed, and not known to be durable. `durable`, `lost`, `broken`: settled at the level. `aborted`: never committed. `expired`: too old to know. `unknown`: the service does not know the id; of a token without an id, a failover may have discarded the transaction or not."""
Verdict: TypeAlias = Literal["pending", "durable", "lost", "broken", "expired", "unknown"]
"""A tracker's verdict. `pending` can become any other verdict. `durable` and `lost` are final, except that `durable` becomes `broken` if a failure breaks the promise, and `lost` if the transaction is back. `expired`: the transaction is too old. `unknown`: the service does not know the id."""
class Position(TypedDict):
    epoch: Uuid
    offset: OffsetText
class Marks(TypedDict):
    epoch: Uuid
    seq: int
    levels: dict[str, OffsetText]
class EpochRecord(TypedDict):
    id: Uuid
    seq: int
    previous: Uuid | None
    node: str
    cause: Literal["first", "clean_restart", "crash_recovery", "promotion", "reinstated", "restored"]
    startedAt: str
    startOffset: OffsetText
    forkOffset: OffsetText
    forkLimit: OffsetText | None
    supersedes: list[Uuid]
    commanded: bool
    finalMarks: dict[str, OffsetText]
class Statement(TypedDict):
    sql: str
    params: NotRequired[list[Param]]
class ValueAtRisk(TypedDict):
    """The loss of the application if a failure discards the transaction after its commit was answered. It counts toward the limits of its unit until the transaction is durable at the exposure level. A transaction with `ack: durable` has nothing at risk."""
    amount: str
    """An exact decimal number, as text: at most 18 digits before the point and 9 behind it."""
    unit: str
    """A currency's code, or any other word of at most 16 letters."""
class TransactionRequest(TypedDict):
    id: str
    statements: list[Statement]
    isolation: NotRequired[Isolation]
    readOnly: NotRequired[bool]
    deferrable: NotRequired[bool]
    ack: NotRequired[Ack]
    level: NotRequired[str]
    maxWaitMs: NotRequired[int]
    after: NotRequired[str]
    mode: NotRequired[Mode]
    reads: NotRequired[Reads]
    maxDelayMs: NotRequired[int]
    metadata: NotRequired[dict[str, str]]
    keep: NotRequired[bool]
    onLost: NotRequired[Literal["replay"]]
    atRisk: NotRequired[ValueAtRisk]
class BeginRequest(TypedDict):
    id: str
    statements: NotRequired[list[Statement]]
    isolation: NotRequired[Isolation]
    readOnly: NotRequired[bool]
    deferrable: NotRequired[bool]
    maxDelayMs: NotRequired[int]
    metadata: NotRequired[dict[str, str]]
    keep: NotRequired[bool]
    onLost: NotRequired[Literal["replay"]]
    atRisk: NotRequired[ValueAtRisk]
class StatementsRequest(TypedDict):
    seq: int
    statements: list[Statement]
class CommitRequest(TypedDict):
    seq: int
    statements: NotRequired[list[Statement]]
    ack: NotRequired[Ack]
    level: NotRequired[str]
    maxWaitMs: NotRequired[int]
    maxDelayMs: NotRequired[int]
    atRisk: NotRequired[ValueAtRisk]
class RollbackRequest(TypedDict):
    seq: int
class StatementResult(TypedDict):
    command: str
    rowCount: int
    fields: list[Field]
    rows: list[list[str | None]]
    truncated: NotRequired[Literal[True]]
class Served(TypedDict):
    node: str
    region: str
    role: Literal["primary", "replica"]
    behindBytes: OffsetText | None
    behindMs: int | None
    ageMs: NotRequired[int | None]
class TransactionResponse(TypedDict):
    id: Uuid
    state: TransactionState
    token: str
    position: Position
    level: NotRequired[str]
    achieved: NotRequired[str | None]
    metBy: NotRequired[Literal["store"]]
    results: list[StatementResult] | None
    marks: Marks | None
    announced: bool
    replayed: NotRequired[Literal[True]]
    served: NotRequired[Served]
    kept: NotRequired[bool]
class OpenTransactionResponse(TypedDict):
    id: Uuid
    state: Literal["active"]
    seq: int
    results: list[StatementResult]
    expiresAt: str
    marks: Marks | None
class RollbackResponse(TypedDict):
    id: Uuid
    state: Literal["aborted"]
class TransactionStateResponse(TypedDict):
    id: Uuid
    state: TransactionState
    token: NotRequired[str]
    position: NotRequired[Position]
    level: NotRequired[str]
    achieved: NotRequired[str | None]
    redo: NotRequired[Literal["service"]]
    marks: Marks | None
class VerdictsRequest(TypedDict):
    tokens: list[str]
    level: NotRequired[str]
    waitMs: NotRequired[int]
class TokenVerdict(TypedDict):
    token: str
    id: Uuid
    verdict: Verdict
    level: str
    position: Position
    rule: str
    retriedIn: NotRequired[Uuid]
    settledAt: NotRequired[str]
    redo: NotRequired[Literal["service"]]
class RefusedToken(TypedDict):
    token: str
    verdict: Literal["unknown"]
    level: str
    rule: Literal["refused"]
    error: Refusal
class VerdictsResponse(TypedDict):
    verdicts: list[TokenVerdict | RefusedToken]
    marks: Marks | None
    blind: NotRequired[Literal[True]]
class MarksResponse(TypedDict):
    marks: Marks | None
    levels: list[str]
    epochs: list[EpochRecord]
    blind: NotRequired[Literal[True]]
class EpochEvent(TypedDict):
    epochs: list[EpochRecord]
class StallEvent(TypedDict):
    level: str
    epoch: Uuid
    offset: OffsetText
    pending: int
class BlindEvent(TypedDict):
    blind: bool
class TicketRequest(TypedDict):
    id: str
    level: NotRequired[str]
    maxDelayMs: NotRequired[int]
    metadata: NotRequired[dict[str, str]]
    atRisk: NotRequired[ValueAtRisk]
class Ticket(TypedDict):
    id: Uuid
    tag: Uuid
    epoch: Uuid
    digest: str
    lifeMs: int
    ticket: str
class TicketEnd(TypedDict):
    ticket: str
    ended: Literal["commit", "rollback"]
class ReachedLimit(TypedDict):
    name: str
    value: float
class AtRisk(TypedDict):
    transactions: int
    bytes: OffsetText
    oldestMs: int | None
class Evidence(TypedDict):
    state: Literal["committed", "durable", "pending", "lost"]
    token: str
    position: Position
    level: NotRequired[str]
class Problem(TypedDict):
    type: str
    title: str
    status: int
    code: str
    outcome: Outcome
    retry: Retry
    detail: NotRequired[str]
    sqlstate: NotRequired[str]
    statement: NotRequired[int]
    constraint: NotRequired[str]
    retryAfterMs: NotRequired[float]
    fields: NotRequired[list[str]]
    limit: NotRequired[ReachedLimit]
    exposure: NotRequired[AtRisk]
    transactionId: NotRequired[str]
    evidence: NotRequired[Evidence]
    redo: NotRequired[Literal["service"]]
    open: NotRequired[bool]
