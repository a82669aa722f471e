"""Consumes the outbox: rows of ``highwater.outbox`` that transactions inserted.

A handler gets each row when it is durable, in order per key, at least once. Several processes may
consume one topic.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypedDict, Unpack

from ._core.errors import HighwaterError, usage_error
from ._core.sql import Sql, sql
from ._values import Row, StatementResult
from .aio import AsyncHighwater
from .client import Highwater

__all__ = ["FollowOutboxOptions", "OutboxRow", "follow_outbox", "follow_outbox_async"]

_RETRY_MAX_S: Final = 300.0
#: Rows of a key are acknowledged together, but not later than this after the one before them.
_ACK_S: Final = 1.0
#: The functions look behind locks, so each of their statements needs a snapshot of its own.
_ISOLATION: Final = "read committed"


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A row of the outbox."""

    id: str
    """Id of the row, the same in every delivery. Skip an id that you have already handled."""
    key: str
    """Rows of one key and one writer are delivered in the order of their commits."""
    payload: Any
    """Content: JSON."""
    writer: str
    """The database's login role that inserted the row."""
    written_at: datetime
    """When it was inserted, by the clock of the database."""
    attempt: int
    """1 for the first delivery."""


class FollowOutboxOptions(TypedDict, total=False):
    """Options of `follow_outbox` and `follow_outbox_async`."""

    level: str
    """Level at which a row must be durable before it is delivered. Default: the client's.

    `disk` is refused, because a failover keeps no promise of it.
    """
    lease: float
    """Time for which a consumer has a key to itself, in seconds. Default: 30.

    Another consumer gets the rows of one that has died after this time. `follow_outbox_async`
    cancels the handler when it ends. `follow_outbox` cannot: a handler there must be faster.
    """
    poll: float
    """Time between two looks at an outbox that has no rows, in seconds. Default: 1."""
    limit: int
    """Maximum number of rows that this consumer takes at once. Default: 20."""
    max_attempts: int
    """Attempts after which a row is parked. Default: 10."""
    retry: float
    """Time until a row that failed is delivered again, in seconds. Default: 1.

    It doubles with every attempt, up to five minutes.
    """


class _Claim:
    """One claim: what it sends, and what it has begun. Does no I/O."""

    def __init__(self, topic: str, options: FollowOutboxOptions) -> None:
        self._topic = topic
        self._options = options
        self._id = str(uuid.uuid4())
        self._lease = options.get("lease", 30.0)
        self._max_attempts = options.get("max_attempts", 10)
        self._unstarted: set[str] = set()
        #: From before the claim, so it ends before the lease does.
        self.until = time.monotonic() + self._lease

    @property
    def left(self) -> float:
        return max(0.0, self.until - time.monotonic())

    def take(self) -> Sql:
        return sql(
            "SELECT id, key, writer, payload, written_at, attempt"
            " FROM highwater.outbox_take({topic}, {claim}, {lease_ms}, {limit}, {max_attempts})",
            topic=self._topic,
            claim=self._id,
            lease_ms=int(self._lease * 1_000),
            limit=self._options.get("limit", 20),
            max_attempts=self._max_attempts,
        )

    def level(self, level: str) -> str:
        level = self._options.get("level", level)
        if level == "disk":
            raise usage_error("invalid_options", "a failover does not keep what is durable at disk: name another level")
        return level

    def by_key(self, rows: Iterable[Row]) -> list[list[OutboxRow]]:
        keys: dict[tuple[str, str], list[OutboxRow]] = {}
        for each in rows:
            row = OutboxRow(
                id=str(each["id"]),
                key=each["key"],
                payload=each["payload"],
                writer=each["writer"],
                written_at=each["written_at"],
                attempt=each["attempt"],
            )
            keys.setdefault((row.key, row.writer), []).append(row)
            self._unstarted.add(row.id)
        return list(keys.values())

    def begin(self, row: OutboxRow) -> bool:
        """Whether there is still time to handle the row."""
        if self.left == 0:
            return False
        self._unstarted.discard(row.id)
        return True

    def ack(self, ids: Sequence[str]) -> Sql:
        return sql("SELECT highwater.outbox_ack({claim}, {ids}::uuid[]) AS acked", claim=self._id, ids=list(ids))

    def fail(self, row: OutboxRow, error: BaseException) -> Sql:
        wait = min(_RETRY_MAX_S, self._options.get("retry", 1.0) * 2.0 ** (row.attempt - 1))
        return sql(
            "SELECT highwater.outbox_fail({claim}, {id}, {error}, {retry_ms}, {max_attempts})",
            claim=self._id,
            id=row.id,
            error=f"{type(error).__name__}: {error}",
            retry_ms=int(wait * 1_000),
            max_attempts=self._max_attempts,
        )

    def release(self) -> Sql:
        return sql(
            "SELECT highwater.outbox_release({claim}, {ids}::uuid[])", claim=self._id, ids=sorted(self._unstarted)
        )


class _Acks:
    """Rows of one key that were handled and not yet acknowledged. Does no I/O."""

    def __init__(self, claim: _Claim) -> None:
        self._claim = claim
        self._ids: list[str] = []
        self._at = time.monotonic()

    def add(self, row: OutboxRow) -> bool:
        """Whether it is time to acknowledge."""
        self._ids.append(row.id)
        return time.monotonic() - self._at >= _ACK_S

    def take(self) -> tuple[Sql | None, int]:
        """Returns the statement and the number of its rows; None if there are none."""
        ids, self._ids = self._ids, []
        self._at = time.monotonic()
        return (self._claim.ack(ids) if ids else None), len(ids)


def _is_passing(error: HighwaterError) -> bool:
    """Whether the service is away, or a failure discarded a claim: the rows come again."""
    return error.code != "no_tracker" and (error.retry != "never" or error.outcome != "not_applied")


def _is_acked(results: Sequence[StatementResult] | None, count: int) -> bool:
    # A replay has no answer to read: the other rows wait for the next claim.
    return results is not None and bool(results[0].rows[0]["acked"] == count)


def follow_outbox(
    client: Highwater,
    topic: str,
    handler: Callable[[OutboxRow], object],
    *,
    stop: threading.Event | None = None,
    **options: Unpack[FollowOutboxOptions],
) -> None:
    """Delivers the rows of a topic to the handler until `stop` is set, and then returns.

    When the handler returns, the row is soon deleted from the outbox. When it raises an error, the
    row is delivered again later, and the rows of its key wait. While the service cannot be reached,
    or rows are not yet durable, this waits and goes on. Rows are handled one after the other: run
    several threads or processes for more.

    Args:
        client: Client that reads the outbox.
        topic: Topic of the rows.
        handler: Function that handles one row.
        stop: Event that ends the call, after the row that is being handled.

    Errors: `invalid_options` for the level `disk`. Errors of the service that waiting does not
    heal, such as a missing right.

    Example:
        insert = "INSERT INTO highwater.outbox (topic, key, payload) VALUES ('mail', 'customer 7', {payload}::jsonb)"
        hw.transaction(sql(insert, payload={"text": "it is on its way"}))
        stop = threading.Event()

        def send(row: OutboxRow) -> None:
            print(row.id, row.payload["text"])
            stop.set()

        follow_outbox(hw, "mail", send, stop=stop)
    """
    stopped = threading.Event() if stop is None else stop
    while not stopped.is_set():
        found = False
        try:
            found = _round(client, _Claim(topic, options), handler, stopped)
        except HighwaterError as error:
            if not _is_passing(error):
                raise
        if not found:
            stopped.wait(options.get("poll", 1.0))


def _round(client: Highwater, claim: _Claim, handler: Callable[[OutboxRow], object], stopped: threading.Event) -> bool:
    is_taken = True
    try:
        taken = client.transaction(claim.take(), isolation=_ISOLATION)
        is_taken = len(taken.rows) > 0
        if not is_taken:
            return False
        keys = claim.by_key(taken.rows)
        # The claim committed after every row that it returned. When it is durable, so are they.
        taken.durable(level=claim.level(taken.level), timeout=claim.left)
        for rows in keys:
            _handle_key(client, claim, rows, handler, stopped)
        return True
    finally:
        if is_taken:
            # Without an answer to it, the lease ends by itself.
            with contextlib.suppress(HighwaterError):
                client.transaction(claim.release(), isolation=_ISOLATION)


def _handle_key(
    client: Highwater,
    claim: _Claim,
    rows: Sequence[OutboxRow],
    handler: Callable[[OutboxRow], object],
    stopped: threading.Event,
) -> None:
    acks = _Acks(claim)

    def ack() -> bool:
        statement, count = acks.take()
        if statement is None:
            return True
        return _is_acked(client.transaction(statement, isolation=_ISOLATION).results, count)

    for row in rows:
        if stopped.is_set() or not claim.begin(row):
            break
        try:
            handler(row)
        except Exception as error:  # noqa: BLE001 - any error of the handler is a failed attempt
            # Before the failure, which gives the key away.
            ack()
            client.transaction(claim.fail(row, error), isolation=_ISOLATION)
            return
        if acks.add(row) and not ack():
            return
    ack()


async def follow_outbox_async(
    client: AsyncHighwater,
    topic: str,
    handler: Callable[[OutboxRow], Awaitable[object]],
    *,
    stop: asyncio.Event | None = None,
    **options: Unpack[FollowOutboxOptions],
) -> None:
    """Delivers the rows of a topic to the handler until `stop` is set, and then returns.

    When the handler returns, the row is soon deleted from the outbox. When it raises an error, the
    row is delivered again later, and the rows of its key wait. Rows of different keys are handled
    at the same time. A handler is cancelled when its key's lease ends: from then on another
    consumer may have the row. While the service cannot be reached, or rows are not yet durable,
    this waits and goes on.

    Args:
        client: Client that reads the outbox.
        topic: Topic of the rows.
        handler: Function that handles one row.
        stop: Event that ends the call, after the rows that are being handled.

    Errors: `invalid_options` for the level `disk`. Errors of the service that waiting does not
    heal, such as a missing right.
    """
    stopped = asyncio.Event() if stop is None else stop
    while not stopped.is_set():
        found = False
        try:
            found = await _round_async(client, _Claim(topic, options), handler, stopped)
        except HighwaterError as error:
            if not _is_passing(error):
                raise
        if not found:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), options.get("poll", 1.0))


async def _round_async(
    client: AsyncHighwater,
    claim: _Claim,
    handler: Callable[[OutboxRow], Awaitable[object]],
    stopped: asyncio.Event,
) -> bool:
    is_taken = True
    try:
        taken = await client.transaction(claim.take(), isolation=_ISOLATION)
        is_taken = len(taken.rows) > 0
        if not is_taken:
            return False
        keys = claim.by_key(taken.rows)
        # The claim committed after every row that it returned. When it is durable, so are they.
        await taken.durable(level=claim.level(taken.level), timeout=claim.left)
        results = await asyncio.gather(
            *(_handle_key_async(client, claim, rows, handler, stopped) for rows in keys), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return True
    finally:
        if is_taken:
            # Without an answer to it, the lease ends by itself.
            with contextlib.suppress(HighwaterError):
                await client.transaction(claim.release(), isolation=_ISOLATION)


async def _handle_key_async(
    client: AsyncHighwater,
    claim: _Claim,
    rows: Sequence[OutboxRow],
    handler: Callable[[OutboxRow], Awaitable[object]],
    stopped: asyncio.Event,
) -> None:
    acks = _Acks(claim)

    async def ack() -> bool:
        statement, count = acks.take()
        if statement is None:
            return True
        return _is_acked((await client.transaction(statement, isolation=_ISOLATION)).results, count)

    for row in rows:
        if stopped.is_set() or not claim.begin(row):
            break
        try:
            async with asyncio.timeout(claim.left):
                await handler(row)
        except Exception as error:  # noqa: BLE001 - any error of the handler is a failed attempt
            # Before the failure, which gives the key away.
            await ack()
            await client.transaction(claim.fail(row, error), isolation=_ISOLATION)
            return
        if acks.add(row) and not await ack():
            return
    await ack()
