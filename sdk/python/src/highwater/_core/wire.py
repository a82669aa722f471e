"""The shapes of the v1 wire, and the checks of what comes back.

An answer is read into dataclasses once, here: camelCase becomes snake_case, offsets become ``int``,
ids lower case. Fields that this package does not rely on are not looked at, for a newer service may
add fields. Values that never leave the package are not frozen, for that makes it five times as dear
to make. Owns no behaviour.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeVar, cast

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
JsonObject: TypeAlias = Mapping[str, JsonValue]

Outcome: TypeAlias = Literal["not_applied", "applied", "unknown"]
"""What became of the transaction that an error is about."""

Retry: TypeAlias = Literal["never", "transaction", "resolve_outcome", "wait"]
"""What a caller may do after an error.

``never``: the request itself is wrong. ``transaction``: run the whole body again, with a new id. ``resolve_outcome``:
ask for the state first. ``wait``: send the same again later.
"""

Isolation: TypeAlias = Literal["serializable", "repeatable read", "read committed"]
"""How much a transaction may see of those that run beside it, by PostgreSQL's names."""
Ack: TypeAlias = Literal["commit", "durable"]
Mode: TypeAlias = Literal["primary", "local"]
Param: TypeAlias = "str | int | float | bool | None"
TransactionState: TypeAlias = Literal[
    "active", "committed", "pending", "durable", "lost", "aborted", "broken", "expired", "unknown"
]
"""What became of a transaction.

``active``: it is open or runs. ``committed``: durability was not asked about. ``pending``: committed, and not known to
be durable. ``durable``, ``lost``, ``broken``: settled at the level. ``aborted``: never committed. ``expired``: too old
to know. ``unknown``: the service does not know the id.
"""
VerdictKind: TypeAlias = Literal["pending", "durable", "lost", "broken", "expired", "unknown"]

TOKENS_PER_REQUEST_MAX: Final = 10_000
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
    """What is durable now, by level, in one epoch. A level that was never observed is absent, not zero."""

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
    """Which node served a read, and how far its snapshot may be behind the primary; None where that is not known."""

    node: str
    """Its name."""
    region: str
    """Where it stands."""
    role: Literal["primary", "replica"]
    """Whether it takes writes."""
    behind_bytes: int | None
    """Bytes of log."""
    behind_ms: float | None
    """Milliseconds."""


@dataclass(slots=True)
class TransactionResponse:
    """The answer to a commit. ``results`` is None for a replay: the original results are not kept."""

    id: str
    state: TransactionState
    token: str
    position: Position
    level: str | None = None
    results: tuple[WireResult, ...] | None = None
    marks: Marks | None = None
    announced: bool = False
    replayed: bool = False
    served: Served | None = None


@dataclass(slots=True)
class OpenTransactionResponse:
    """The answer to a call that leaves an interactive transaction open."""

    id: str
    results: tuple[WireResult, ...]
    expires_at: str
    """RFC 3339, by the gateway's clock: it is rolled back then unless another call comes before."""
    marks: Marks | None = None


@dataclass(slots=True)
class RollbackResponse:
    """The transaction is settled as aborted."""


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

    ``pending`` may become any other. ``durable`` and ``lost`` are final, but that a promise which a failure has
    violated becomes ``broken``. ``expired``: too old to know. ``unknown``: the service does not know the id.
    """
    level: str
    """The level it was judged at."""
    position: Position
    """Where the transaction is judged now: its own position, or the one it was carried over to."""
    rule: str
    """The rule that gave the verdict; one that this client found by itself starts with ``client:``."""
    retried_in: str | None = None
    """For ``lost``: the epoch in which another attempt under the same id committed."""
    settled_at: str | None = None
    """For ``lost`` and ``broken``: the strongest level that the tombstone had reached when it was published."""


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
    """The tracker gets nothing new from the primary: another tracker may settle what is pending here."""


@dataclass(slots=True)
class MarksResponse:
    marks: Marks | None
    epochs: tuple[EpochRecord, ...]
    """The current epoch and its ancestors, oldest first."""
    levels: tuple[str, ...] = ()
    blind: bool = False
    """As in an answer with verdicts."""


@dataclass(slots=True)
class EpochEvent:
    epochs: tuple[EpochRecord, ...]


@dataclass(frozen=True, slots=True)
class StallEvent:
    level: str
    epoch: str
    offset: int | None
    pending: int | None


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
    oldest_ms: float | None
    """Age of the oldest in milliseconds; None when there is none."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a refusal rests on: everything that the statement could see."""

    state: str
    """``committed``, ``durable``, ``pending`` (not durable in the time), or ``lost`` (a failover took some back)."""
    token: str
    """Durable when the refusal can no longer be taken back."""
    position: Position
    """The end of the log when the statement had been refused: everything that it could see is at or below."""
    level: str | None = None
    """At which it is durable, or was waited for."""


@dataclass(slots=True)
class Problem:
    """RFC 9457 body of an error answer. A newer service may know more codes than this client."""

    code: str
    outcome: Outcome
    retry: Retry
    message: str
    sqlstate: str | None = None
    constraint: str | None = None
    statement: int | None = None
    retry_after_ms: float | None = None
    fields: tuple[str, ...] = ()
    limit: ReachedLimit | None = None
    exposure: AtRisk | None = None
    evidence: Evidence | None = None
    transaction_id: str | None = None
    open: bool | None = None


class WireError(ValueError):
    """An answer has not the shape it must have."""


_T = TypeVar("_T")
_DECIMAL: Final = re.compile(r"(?:0|[1-9][0-9]{0,63})\Z")
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", re.IGNORECASE | re.ASCII)
_STATES: Final = frozenset(
    ("active", "committed", "pending", "durable", "lost", "aborted", "broken", "expired", "unknown")
)
_VERDICTS: Final = frozenset(("pending", "durable", "lost", "broken", "expired", "unknown"))
_OUTCOMES: Final = frozenset(("not_applied", "applied", "unknown"))
_RETRIES: Final = frozenset(("never", "transaction", "resolve_outcome", "wait"))


def _record(value: object) -> Mapping[str, object]:
    if isinstance(value, dict):
        return value
    raise WireError("not an object")


def _list(value: object) -> list[object]:
    if isinstance(value, list):
        return value
    raise WireError("not a list")


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise WireError("not text")


def _uuid(value: object) -> str:
    if isinstance(value, str) and _UUID.match(value):
        return value.lower()
    raise WireError("not a UUID")


def _offset(value: object) -> int:
    if isinstance(value, str) and _DECIMAL.match(value):
        return int(value)
    raise WireError("not an offset")


def _number(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    raise WireError("not a number")


def _integer(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise WireError("not an integer")


def _one_of(value: object, words: frozenset[str]) -> str:
    if isinstance(value, str) and value in words:
        return value
    raise WireError("not a value of the protocol")


def _or_none(value: object, read: Callable[[object], _T]) -> _T | None:
    return None if value is None else read(value)


def _lenient(value: object, read: Callable[[object], _T]) -> _T | None:
    """For what only informs: what is not understood is left out, and the answer stands."""
    if value is None:
        return None
    try:
        return read(value)
    except WireError:
        return None


def read_position(value: object) -> Position:
    record = _record(value)
    return Position(sys.intern(_uuid(record.get("epoch"))), _offset(record.get("offset")))


def read_marks(value: object) -> Marks:
    record = _record(value)
    levels = {level: _offset(offset) for level, offset in _record(record.get("levels")).items()}
    return Marks(_uuid(record.get("epoch")), _integer(record.get("seq")), levels)


def _read_epoch(value: object) -> EpochRecord:
    record = _record(value)
    if "previous" not in record:
        raise WireError("an epoch lacks its previous epoch")
    return EpochRecord(
        id=_uuid(record.get("id")),
        previous=_or_none(record.get("previous"), _uuid),
        start_offset=_offset(record.get("startOffset")),
        fork_offset=_offset(record.get("forkOffset")),
    )


def _read_epochs(value: object) -> tuple[EpochRecord, ...]:
    return tuple(_read_epoch(each) for each in _list(value))


def read_epoch_event(value: object) -> EpochEvent:
    epochs = _read_epochs(_record(value).get("epochs"))
    if not epochs:
        raise WireError("an epoch event has no epoch")
    return EpochEvent(epochs)


def read_marks_response(value: object) -> MarksResponse:
    record = _record(value)
    levels = record.get("levels")
    return MarksResponse(
        marks=_or_none(record.get("marks"), read_marks),
        epochs=_read_epochs(record.get("epochs")),
        levels=tuple(each for each in levels if isinstance(each, str)) if isinstance(levels, list) else (),
        blind=record.get("blind") is True,
    )


def read_blind_event(value: object) -> bool:
    blind = _record(value).get("blind")
    if not isinstance(blind, bool):
        raise WireError("a blind event must be true or false")
    return blind


def read_stall_event(value: object) -> StallEvent:
    record = _record(value)
    return StallEvent(
        level=_text(record.get("level")),
        epoch=_uuid(record.get("epoch")),
        offset=_lenient(record.get("offset"), _offset),
        pending=_lenient(record.get("pending"), _integer),
    )


def _read_field(value: object) -> Field:
    record = _record(value)
    return Field(_text(record.get("name")), _integer(record.get("oid")))


_CELL_TYPES: Final = frozenset((str, type(None)))


def _read_result(value: object) -> WireResult:
    record = _record(value)
    rows = _list(record.get("rows"))
    for row in rows:
        if not isinstance(row, list) or not _CELL_TYPES.issuperset(map(type, row)):
            raise WireError("a row must be a list of strings and nulls")
    return WireResult(
        command=_text(record.get("command")),
        row_count=_integer(record.get("rowCount")),
        fields=tuple(_read_field(each) for each in _list(record.get("fields"))),
        rows=cast("list[list[str | None]]", rows),
        truncated=record.get("truncated") is True,
    )


def _read_results(value: object) -> tuple[WireResult, ...]:
    return tuple(_read_result(each) for each in _list(value))


def _read_served(value: object) -> Served:
    record = _record(value)
    role = _one_of(record.get("role"), frozenset(("primary", "replica")))
    return Served(
        node=_text(record.get("node")),
        region=_text(record.get("region")),
        role=cast("Literal['primary', 'replica']", role),
        behind_bytes=_or_none(record.get("behindBytes"), _offset),
        behind_ms=_or_none(record.get("behindMs"), _number),
    )


def _read_state(value: object) -> TransactionState:
    return cast("TransactionState", _one_of(value, _STATES))


def read_transaction_response(value: object) -> TransactionResponse:
    record = _record(value)
    if "results" not in record:
        raise WireError("the answer to a commit must have results or null")
    return TransactionResponse(
        id=_uuid(record.get("id")),
        state=_read_state(record.get("state")),
        token=_text(record.get("token")),
        position=read_position(record.get("position")),
        level=_lenient(record.get("level"), _text),
        results=_or_none(record.get("results"), _read_results),
        marks=_or_none(record.get("marks"), read_marks),
        announced=record.get("announced") is True,
        replayed=record.get("replayed") is True,
        served=_lenient(record.get("served"), _read_served),
    )


def read_open_transaction_response(value: object) -> OpenTransactionResponse:
    record = _record(value)
    _one_of(record.get("state"), frozenset(("active",)))
    return OpenTransactionResponse(
        id=_uuid(record.get("id")),
        results=_read_results(record.get("results")),
        expires_at=_text(record.get("expiresAt")),
        marks=_or_none(record.get("marks"), read_marks),
    )


def read_rollback_response(value: object) -> RollbackResponse:
    _one_of(_record(value).get("state"), frozenset(("aborted",)))
    return RollbackResponse()


def read_transaction_status(value: object) -> TransactionStatus:
    record = _record(value)
    return TransactionStatus(
        id=_uuid(record.get("id")),
        state=_read_state(record.get("state")),
        token=_or_none(record.get("token"), _text),
        position=_or_none(record.get("position"), read_position),
        level=_lenient(record.get("level"), _text),
        marks=_or_none(record.get("marks"), read_marks),
    )


def _read_verdict(value: object) -> Verdict | RefusedToken:
    record = _record(value)
    token = _text(record.get("token"))
    verdict = _one_of(record.get("verdict"), _VERDICTS)
    error = record.get("error")
    if error is not None:
        refusal = _record(error)
        _one_of(verdict, frozenset(("unknown",)))
        level = _lenient(record.get("level"), _text) or ""
        return RefusedToken(token, level, _text(refusal.get("code")), _text(refusal.get("detail")))
    return Verdict(
        token=token,
        id=_uuid(record.get("id")),
        verdict=cast("VerdictKind", verdict),
        level=_text(record.get("level")),
        position=read_position(record.get("position")),
        rule=_lenient(record.get("rule"), _text) or "",
        retried_in=_lenient(record.get("retriedIn"), _uuid),
        settled_at=_lenient(record.get("settledAt"), _text),
    )


def read_verdicts_response(value: object) -> VerdictsResponse:
    record = _record(value)
    return VerdictsResponse(
        verdicts=tuple(_read_verdict(each) for each in _list(record.get("verdicts"))),
        marks=_or_none(record.get("marks"), read_marks),
        blind=record.get("blind") is True,
    )


def _read_limit(value: object) -> ReachedLimit:
    record = _record(value)
    return ReachedLimit(_text(record.get("name")), _number(record.get("value")))


def _read_at_risk(value: object) -> AtRisk:
    record = _record(value)
    return AtRisk(
        transactions=_integer(record.get("transactions")),
        bytes=_offset(record.get("bytes")),
        oldest_ms=_or_none(record.get("oldestMs"), _number),
    )


def _read_evidence(value: object) -> Evidence:
    record = _record(value)
    return Evidence(
        state=_text(record.get("state")),
        token=_text(record.get("token")),
        position=read_position(record.get("position")),
        level=_lenient(record.get("level"), _text),
    )


def read_problem(value: object) -> Problem:
    record = _record(value)
    code = _text(record.get("code"))
    fields = record.get("fields")
    is_open = record.get("open")
    message = _lenient(record.get("detail"), _text) or _lenient(record.get("title"), _text) or code
    return Problem(
        code=code,
        outcome=cast("Outcome", _one_of(record.get("outcome"), _OUTCOMES)),
        retry=cast("Retry", _one_of(record.get("retry"), _RETRIES)),
        message=message,
        sqlstate=_lenient(record.get("sqlstate"), _text),
        constraint=_lenient(record.get("constraint"), _text),
        statement=_lenient(record.get("statement"), _integer),
        retry_after_ms=_lenient(record.get("retryAfterMs"), _number),
        fields=tuple(each for each in fields if isinstance(each, str)) if isinstance(fields, list) else (),
        limit=_lenient(record.get("limit"), _read_limit),
        exposure=_lenient(record.get("exposure"), _read_at_risk),
        evidence=_lenient(record.get("evidence"), _read_evidence),
        transaction_id=_lenient(record.get("transactionId"), _text),
        open=is_open if isinstance(is_open, bool) else None,
    )
