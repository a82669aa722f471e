"""A simplified ad exchange, as its developer would write it; the same as `../src/exchange.ts`.

A publisher has an empty slot on a page that a user waits for; advertisers bid for it; the highest
bid wins. The page cannot wait for a remote disk at every step, so `create_auction` and `new_bid`
are fast: they answer at their commit, and a failure within the next moments may still lose them.
`close_auction` is safe: its answer is money, so it waits until the sale would survive the loss of a
region. Durable transactions are a prefix of the committed
ones: with the sale, its auction and bids are durable too.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Unpack

from highwater import (
    AsyncTransaction,
    HighwaterError,
    Sql,
    StatementInput,
    TransactionOptions,
    new_transaction_id,
    sql,
)


class Client(Protocol):
    """What the exchange needs of the SDK's client."""

    async def transaction(
        self, statements: Sequence[StatementInput], **options: Unpack[TransactionOptions]
    ) -> AsyncTransaction: ...


#: Every row names the transaction that wrote it, so that the check finds out what became of each
#: transaction without asking a service. A real exchange might want it for its audit.
SCHEMA: Final = [
    sql("DROP TABLE IF EXISTS sale, bid, auction"),
    sql("""CREATE TABLE auction (
        id uuid PRIMARY KEY,
        publisher text NOT NULL,
        slot text NOT NULL,
        state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed')),
        created_by uuid NOT NULL)"""),
    sql("""CREATE TABLE bid (
        id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
        auction_id uuid NOT NULL REFERENCES auction,
        advertiser text NOT NULL,
        cents integer NOT NULL,
        placed_by uuid NOT NULL)"""),
    sql("CREATE INDEX ON bid (auction_id)"),
    sql("""CREATE TABLE sale (
        id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
        auction_id uuid NOT NULL REFERENCES auction,
        bid_id uuid REFERENCES bid,
        cents integer,
        closed_by uuid NOT NULL)"""),
]

#: Survives the loss of the region that committed it.
LEVEL: Final = "region"
SAFE: Final = TransactionOptions(ack="durable", level=LEVEL)
FAST: Final = TransactionOptions()
ATTEMPTS_MAX: Final = 6
RERUN_PAUSE_S: Final = 0.008


@dataclass(frozen=True)
class Sale:
    advertiser: str | None
    cents: int | None


class Exchange:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def create_tables(self) -> None:
        """Safe: the tables are there for good before anybody trades."""
        await self._run("create_tables", lambda _: SCHEMA, SAFE)

    async def create_auction(self, auction: str, *, publisher: str, slot: str) -> None:
        """Fast."""
        await self._run(
            "create_auction",
            lambda transaction: [
                sql(
                    """INSERT INTO auction (id, publisher, slot, created_by)
                       VALUES ({auction}, {publisher}, {slot}, {transaction})""",
                    auction=auction,
                    publisher=publisher,
                    slot=slot,
                    transaction=transaction,
                )
            ],
        )

    async def new_bid(self, auction: str, *, advertiser: str, cents: int) -> None:
        """Fast.

        A bid in an auction that is closed, or that a failure has taken, is not recorded.
        """
        await self._run(
            "new_bid",
            lambda transaction: [
                sql(
                    """INSERT INTO bid (auction_id, advertiser, cents, placed_by)
                       SELECT id, {advertiser}, {cents}, {transaction} FROM auction
                       WHERE id = {auction} AND state = 'open'
                       RETURNING id""",
                    auction=auction,
                    advertiser=advertiser,
                    cents=cents,
                    transaction=transaction,
                )
            ],
        )

    async def close_auction(self, auction: str) -> Sale | None:
        """Safe: closes the auction, picks the winner and records the sale, all or nothing.

        None when there is no such open auction: a failure took it before it was durable.
        """
        closed = await self._run(
            "close_auction",
            lambda transaction: [
                sql(
                    """WITH closing AS (
                         UPDATE auction SET state = 'closed' WHERE id = {auction} AND state = 'open' RETURNING id
                       ), winner AS (
                         SELECT id, advertiser, cents FROM bid WHERE auction_id = {auction}
                         ORDER BY cents DESC, id LIMIT 1
                       ), sold AS (
                         INSERT INTO sale (auction_id, bid_id, cents, closed_by)
                         SELECT closing.id, winner.id, winner.cents, {transaction} FROM closing LEFT JOIN winner ON true
                         RETURNING bid_id
                       )
                       SELECT advertiser, cents FROM sold LEFT JOIN winner ON winner.id = sold.bid_id""",
                    auction=auction,
                    transaction=transaction,
                )
            ],
            SAFE,
        )
        # The answer got lost and this is the outcome of the first attempt, without its rows: read
        # them again.
        rows = (await self._sale_of(auction) if closed.results is None else closed).rows
        return Sale(rows[0]["advertiser"], rows[0]["cents"]) if rows else None

    async def _sale_of(self, auction: str) -> AsyncTransaction:
        query = sql(
            """SELECT advertiser, sale.cents, created_by, placed_by, closed_by
               FROM sale JOIN auction ON auction.id = sale.auction_id LEFT JOIN bid ON bid.id = sale.bid_id
               WHERE sale.auction_id = {auction}""",
            auction=auction,
        )
        return await self._run("sale_of", lambda _: [query], {**SAFE, "read_only": True})

    async def standing_bids(self, auction: str, *, safe: bool) -> list[int]:
        """In cents, the highest first.

        Fast, it may show what a failure can still undo; safe, all that it shows is durable when it
        answers.
        """
        query = sql(
            """SELECT bid.cents, created_by, placed_by, closed_by
               FROM auction LEFT JOIN bid ON bid.auction_id = auction.id LEFT JOIN sale ON sale.auction_id = auction.id
               WHERE auction.id = {auction} ORDER BY bid.cents DESC""",
            auction=auction,
        )
        options: TransactionOptions = {**(SAFE if safe else FAST), "read_only": True}
        read = await self._run("standing_bids", lambda _: [query], options)
        return [row["cents"] for row in read.rows if row["cents"] is not None]

    async def _run(
        self, name: str, body: Callable[[str], Sequence[Sql]], options: TransactionOptions = FAST
    ) -> AsyncTransaction:
        """Runs one transaction, fast unless the options say otherwise.

        Lost replies, dead connections and failovers are the SDK's business: it sends the same id
        again, and the id never runs twice. The rest is the application's: the transaction that
        certainly came to nothing, by a conflict or in a failure. The body runs again, with a new
        id.
        """
        for attempt in range(1, ATTEMPTS_MAX + 1):
            transaction_id = new_transaction_id()
            try:
                execution: TransactionOptions = {"isolation": "serializable", "metadata": {"name": name}}
                own: TransactionOptions = {**options, **execution, "id": transaction_id}
                return await self._client.transaction(body(transaction_id), **own)
            except HighwaterError as error:
                if error.retry != "transaction" or attempt == ATTEMPTS_MAX:
                    raise
            await asyncio.sleep(attempt * RERUN_PAUSE_S * random.random())
        raise AssertionError("unreachable")
