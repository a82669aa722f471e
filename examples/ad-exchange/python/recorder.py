"""What the clients learned about every transaction: the claims that `check.py` holds against the
database.

Stands between the exchange and the SDK's client; adds nothing to what the SDK sends and takes
nothing away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Unpack

from exchange import LEVEL
from highwater import (
    AsyncHighwater,
    AsyncTransaction,
    HighwaterError,
    PromiseBrokenError,
    StatementInput,
    TransactionLostError,
    TransactionOptions,
)

#: Longer than any failover here.
PROMISE_TIMEOUT_S = 120.0
WRITERS = ("created_by", "placed_by", "closed_by")


@dataclass
class Claim:
    id: str
    name: str
    read_only: bool
    answer: Literal["in flight", "committed", "aborted", "unknown"] = "in flight"
    """`unknown`: may or may not have committed; the check asks.

    `aborted`: certainly came to nothing.
    """
    token: str | None = None
    wrote: bool | None = None
    """Whether it left rows in the application's tables; None if its results are not known."""
    seen: frozenset[str] = frozenset()
    """Transactions whose rows it was shown."""
    reported: Literal["durable", "lost", "broken"] | None = None
    """What the SDK's promise said."""
    error: BaseException | None = None


class Recorder:
    def __init__(self, client: AsyncHighwater) -> None:
        self.claims: list[Claim] = []
        self._client = client
        self._promises: set[asyncio.Task[None]] = set()

    async def transaction(
        self, statements: Sequence[StatementInput], **options: Unpack[TransactionOptions]
    ) -> AsyncTransaction:
        metadata = options.get("metadata") or {}
        claim = Claim(str(options.get("id")), metadata.get("name", "?"), options.get("read_only") is True)
        self.claims.append(claim)
        try:
            transaction = await self._client.transaction(statements, **options)
        except HighwaterError as error:
            claim.error = error
            # A safe one can be lost while its client waits for the answer: it was committed, and no
            # client knows it.
            claim.answer = "aborted" if error.outcome == "not_applied" else "unknown"
            raise
        claim.answer = "committed"
        claim.token = transaction.token
        if transaction.results is not None:
            if not claim.read_only:
                claim.wrote = any(result.row_count > 0 for result in transaction.results)
            values = (row.get(writer) for row in transaction.rows for writer in WRITERS)
            claim.seen = frozenset(str(value) for value in values if value is not None)
        task = asyncio.create_task(_listen(claim, transaction))
        self._promises.add(task)
        task.add_done_callback(self._promises.discard)
        return transaction

    async def settled(self) -> None:
        """Returns when every promise has said something."""
        await asyncio.gather(*self._promises)

    def count(self, reported: str | None) -> int:
        return sum(claim.answer == "committed" and claim.reported == reported for claim in self.claims)


async def _listen(claim: Claim, transaction: AsyncTransaction) -> None:
    try:
        await transaction.durable(level=LEVEL, timeout=PROMISE_TIMEOUT_S)
        claim.reported = "durable"
    except TransactionLostError:
        claim.reported = "lost"
    except PromiseBrokenError:
        claim.reported = "broken"
    except HighwaterError as error:
        claim.error = error
