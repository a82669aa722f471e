"""What this package keeps of the messages of the v1 wire: snake_case, offsets as ``int``.

``wire_types`` has the messages as they come, and ``reading`` the checks. Values that never leave
the package are not frozen, for that makes it five times as dear to make. Owns no behaviour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from .wire_types import Outcome, Retry, TransactionState
from .wire_types import Verdict as VerdictKind

WAIT_MS_MAX: Final = 60_000


@dataclass(frozen=True, slots=True)
class Position:
    """A place in one epoch's log. Offsets of different epochs are never compared."""

    epoch: str
    """Id of the epoch: the time from one start or promotion of a primary to the next."""
    offset: int
    """Bytes of log."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What is durable now, by level, in one epoch.

    A level that was never observed is absent, not zero.
    """

    epoch: str
    """Id of the epoch."""
    seq: int
    """Number of the epoch: a later one has a larger one."""
    levels: Mapping[str, int]
    """By level: the offset up to which everything is durable at it."""


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """How one epoch began, as far as a client needs it."""

    id: str
    seq: int
    """Number of the epoch: a later one has a larger one."""
    previous: str | None
    start_offset: int
    """Upper bound of this record's own position in the epoch's log."""
    fork_offset: int
    """The previous epoch's log is contained in this history at least up to here."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement with its parameters, numbered from ``$1`` in the text."""

    sql: str
    """The text."""
    params: Sequence[object] = ()
    """What ``sql`` takes as values."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a result."""

    name: str
    """As the statement calls it."""
    oid: int
    """Of its type."""


@dataclass(slots=True)
class WireResult:
    """The result of one statement as it came: PostgreSQL's text, or None for NULL."""

    command: str
    row_count: int
    fields: tuple[Field, ...]
    rows: Sequence[Sequence[str | None]]
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Served:
    """The node that served a read, and how far its snapshot may lag; None if that is not known."""

    node: str
    """Its name."""
    region: str
    """Where it stands."""
    role: Literal["primary", "replica"]
    """Whether it takes writes."""
    behind_bytes: int | None = None
    """Bytes of log."""
    behind: float | None = None
    """Seconds."""
    age: float | None = None
    """With ``reads="durable"``: the state in the answer is at most so many seconds old."""


@dataclass(slots=True)
class TransactionResponse:
    """The answer to a commit.

    ``results`` is None for a replay: the original results are not kept.
    """

    id: str
    state: TransactionState
    token: str
    position: Position
    results: tuple[WireResult, ...] | None
    level: str | None = None
    achieved: str | None = None
    marks: Marks | None = None
    announced: bool = False
    replayed: bool = False
    served: Served | None = None
    kept: bool | None = None


@dataclass(slots=True)
class OpenTransactionResponse:
    """The answer to a call that leaves an interactive transaction open."""

    id: str
    state: str
    results: tuple[WireResult, ...]
    expires_at: str
    """RFC 3339, by the gateway's clock: it is rolled back then unless another call comes before."""
    marks: Marks | None = None


@dataclass(frozen=True, slots=True)
class TransactionStatus:
    """What became of an id."""

    id: str
    """The transaction's."""
    state: TransactionState
    """At the level."""
    token: str | None = None
    """Of one that has committed: for ``hw.promise(token)``."""
    position: Position | None = None
    """Of one that has committed: where."""
    level: str | None = None
    """The level that ``state`` is about, where it is about one."""
    achieved: str | None = None
    """The strongest level at which it is durable, by what the gateway knew; None: none yet."""
    redo: Literal["service"] | None = None
    """For a lost transaction: the service brings it back. Do not run it again."""
    marks: Marks | None = None
    """The newest that the gateway knows."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one transaction at one level."""

    token: str
    """The one that was judged."""
    id: str
    """Of the transaction."""
    verdict: VerdictKind
    """What became of it.

    ``pending`` may become any other. ``durable`` and ``lost`` are final, but that a promise which a
    failure has violated becomes ``broken``. ``expired``: too old to know. ``unknown``: the service
    does not know the id.
    """
    level: str
    """The level it was judged at."""
    position: Position
    """Where the transaction is judged now: its own position, or the one it was carried over to."""
    rule: str = ""
    """The rule that gave the verdict; ``client:`` begins one that this client applied."""
    retried_in: str | None = None
    """For ``lost``: the epoch in which another attempt under the same id committed."""
    settled_at: str | None = None
    """For ``lost`` and ``broken``: the strongest level that the tombstone had reached by then."""
    redo: Literal["service"] | None = None
    """For a lost transaction: the service brings it back. Do not run it again."""
    metadata: Mapping[str, str] | None = None
    """Metadata from the transaction's options; None if another process has committed it."""
    read_only: bool | None = None
    """Whether the transaction was ``read_only``; None if another process has committed it."""


@dataclass(frozen=True, slots=True)
class RefusedToken:
    """In the place of a verdict: the tracker does not judge this token for this caller."""

    token: str
    """The one that was refused."""
    level: str
    """The level that was asked about."""
    code: str
    """``invalid_token`` or ``forbidden``."""
    detail: str
    """The same in words."""
    verdict: Literal["unknown"] = "unknown"
    """Always so: nothing is said of it."""


@dataclass(slots=True)
class VerdictsResponse:
    verdicts: tuple[Verdict | RefusedToken, ...]
    marks: Marks | None = None
    blind: bool = False
    """The tracker gets nothing new from the primary. Another tracker may settle these promises."""


@dataclass(slots=True)
class MarksResponse:
    epochs: tuple[EpochRecord, ...]
    """The current epoch and its ancestors, oldest first."""
    marks: Marks | None = None
    blind: bool = False
    """As in an answer with verdicts."""


@dataclass(slots=True)
class EpochEvent:
    epochs: tuple[EpochRecord, ...]


@dataclass(frozen=True, slots=True)
class ReachedLimit:
    """The limit that was met."""

    name: str
    """As the service's configuration calls it."""
    value: float
    """In the unit that the name says."""


@dataclass(frozen=True, slots=True)
class AtRisk:
    """What is committed and not durable yet."""

    transactions: int
    """How many they are."""
    bytes: int
    """Of log."""
    oldest: float | None = None
    """Age of the oldest in seconds; None when there is none."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a refusal rests on: everything that the statement could see."""

    state: str
    """``committed``, ``durable``, ``pending`` (not in time) or ``lost`` (by a failover)."""
    token: str
    """Durable when the refusal can no longer be taken back."""
    position: Position
    """The end of the log after the refusal: all that the statement could see is at or below."""
    level: str | None = None
    """At which it is durable, or was waited for."""


@dataclass(slots=True)
class Problem:
    """RFC 9457 body of an error answer. A newer service may know more codes than this client."""

    code: str
    outcome: Outcome
    retry: Retry
    message: str = ""
    sqlstate: str | None = None
    constraint: str | None = None
    statement: int | None = None
    retry_after: float | None = None
    """Seconds."""
    fields: tuple[str, ...] = ()
    limit: ReachedLimit | None = None
    exposure: AtRisk | None = None
    evidence: Evidence | None = None
    redo: Literal["service"] | None = None
    transaction_id: str | None = None
    open: bool | None = None


class WireError(ValueError):
    """An answer has not the shape it must have."""
