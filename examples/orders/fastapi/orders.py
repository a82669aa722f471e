"""Takes orders fast, and writes one e-mail about each as soon as it is known what became of it.

It may be stopped, or die, at any moment: what it owes is in the book, and a token can be judged at
any later time.
"""

from __future__ import annotations

import asyncio
import logging
import smtplib
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from book import Book, OwedOrder, State
from highwater import (
    AsyncHighwater,
    HighwaterError,
    StatementError,
    TransactionAbortedError,
    TransactionLostError,
    Verdict,
    new_transaction_id,
    sql,
)
from mailer import Send

#: How soon it is tried again to send what the database or the mail server did not take.
_RETRY_S = 1.0
_LOG = logging.getLogger("uvicorn.error")


@dataclass(frozen=True)
class PlacedOrder:
    id: str
    is_committed: bool
    """If not: the outcome was unknown. It is in the book, and is placed again until that is known.
    """


class Orders:
    def __init__(self, hw: AsyncHighwater, book: Book, send: Send) -> None:
        self._hw = hw
        self._book = book
        self._send = send
        #: Orders that are being placed or written about.
        self._busy: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._retrying: asyncio.Task[None] | None = None

    async def start(self) -> None:
        # No customer has to wait for this to be durable: an order that is durable has a durable
        # table.
        await self._hw.transaction(
            sql(
                """CREATE TABLE IF NOT EXISTS purchase
                   (id uuid PRIMARY KEY, customer text NOT NULL, item text NOT NULL)"""
            )
        )
        # These get the commits from now on, and the promises that the last process left.
        self._hw.on_durable(lambda verdict: self._settle(verdict, "confirmed"))
        self._hw.on_lost(lambda verdict: self._settle(verdict, "lost"))
        for entry in self._book.pending():
            if entry.token is not None:
                self._hw.promise(entry.token)
        self._retrying = asyncio.create_task(self._retry())

    async def place(self, *, customer: str, item: str) -> PlacedOrder:
        """Returns at the commit: clients see the order, and a failover may still discard it."""
        order_id = new_transaction_id()
        self._book.add(order_id, customer=customer, item=item)
        self._busy.add(order_id)
        try:
            await self._commit(order_id, customer=customer, item=item)
            return PlacedOrder(order_id, is_committed=True)
        except HighwaterError as error:
            if error.outcome == "unknown":
                return PlacedOrder(order_id, is_committed=False)
            self._book.remove(order_id)
            raise
        finally:
            self._busy.discard(order_id)

    def find(self, order_id: str) -> OwedOrder | None:
        return self._book.find(order_id)

    async def stop(self) -> None:
        """Returns when no e-mail is on its way out any more; closes client and book."""
        if self._retrying is not None:
            self._retrying.cancel()
        await self._hw.close()
        await asyncio.gather(*self._tasks)
        self._book.close()

    async def _commit(self, order_id: str, *, customer: str, item: str) -> None:
        insert = sql(
            "INSERT INTO purchase VALUES ({id}, {customer}, {item})", id=order_id, customer=customer, item=item
        )
        committed = await self._hw.transaction(insert, id=order_id)
        self._book.set_token(order_id, committed.token)

    def _settle(self, verdict: Verdict, state: State) -> None:
        self._book.settle(verdict.id, state)
        self._write(verdict.id)

    async def _retry(self) -> None:
        while True:
            for entry in self._book.unanswered():
                if entry.id not in self._busy:
                    self._begin(entry.id, self._place_again(entry))
            for entry in self._book.unmailed():
                self._write(entry.id)
            await asyncio.sleep(_RETRY_S)

    async def _place_again(self, entry: OwedOrder) -> None:
        """Commits the order, or finds what the first attempt did: the same id never runs twice."""
        try:
            await self._commit(entry.id, customer=entry.customer, item=entry.item)
        except (TransactionLostError, TransactionAbortedError, StatementError):
            # It never was an order, or is none any more.
            self._book.settle(entry.id, "lost")
        except HighwaterError as error:
            _LOG.warning("order %s could not be placed again: %s", entry.id, error)

    def _write(self, order_id: str) -> None:
        entry = None if order_id in self._busy else self._book.find(order_id)
        if entry is not None and entry.state != "pending" and not entry.is_mailed:
            self._begin(order_id, self._send_email(entry))

    async def _send_email(self, entry: OwedOrder) -> None:
        """Crossed out after it was sent: a crash in between sends it twice rather than never."""
        try:
            await self._send(entry)
        except (OSError, smtplib.SMTPException) as error:
            _LOG.warning("the e-mail about order %s was not taken: %s", entry.id, error)
        else:
            self._book.set_mailed(entry.id)

    def _begin(self, order_id: str, work: Coroutine[Any, Any, None]) -> None:
        """Runs it in the background. The event loop would forget a task without a reference."""
        self._busy.add(order_id)
        task = asyncio.create_task(work)
        self._tasks.add(task)

        def end(ended: asyncio.Task[None]) -> None:
            self._tasks.discard(ended)
            self._busy.discard(order_id)

        task.add_done_callback(end)
