"""The orders that customers still wait for, in a file of its own: a failover must not take it."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Literal

State = Literal["pending", "confirmed", "lost"]
"""``pending``: the customer knows that it was taken, and it is unknown yet whether it will survive.
"""


@dataclass(frozen=True)
class OwedOrder:
    id: str
    """The transaction's, too."""
    customer: str
    item: str
    token: str | None
    """None until the commit was answered."""
    state: State
    is_mailed: bool


class Book:
    """Its calls are short, a write to a local disk at most, so they are made on the event loop."""

    def __init__(self, path: str) -> None:
        self._file = sqlite3.connect(path, isolation_level=None)
        self._file.execute(
            """CREATE TABLE IF NOT EXISTS entry (
              id TEXT PRIMARY KEY, customer TEXT NOT NULL, item TEXT NOT NULL, token TEXT,
              state TEXT NOT NULL DEFAULT 'pending', mailed INTEGER NOT NULL DEFAULT 0)"""
        )

    def add(self, order_id: str, *, customer: str, item: str) -> None:
        """Before the commit is sent: a crash behind it must not leave an unknown order."""
        self._file.execute("INSERT INTO entry (id, customer, item) VALUES (?, ?, ?)", (order_id, customer, item))

    def set_token(self, order_id: str, token: str) -> None:
        self._file.execute("UPDATE entry SET token = ? WHERE id = ?", (token, order_id))

    def settle(self, order_id: str, state: State) -> None:
        self._file.execute("UPDATE entry SET state = ? WHERE id = ? AND state = 'pending'", (state, order_id))

    def set_mailed(self, order_id: str) -> None:
        self._file.execute("UPDATE entry SET mailed = 1 WHERE id = ?", (order_id,))

    def remove(self, order_id: str) -> None:
        self._file.execute("DELETE FROM entry WHERE id = ?", (order_id,))

    def find(self, order_id: str) -> OwedOrder | None:
        found = self._select("id = ?", order_id)
        return found[0] if found else None

    def unanswered(self) -> list[OwedOrder]:
        """Committed, perhaps: the answer is missing."""
        return self._select("token IS NULL AND state = 'pending'")

    def pending(self) -> list[OwedOrder]:
        """Committed, and not known to be durable or lost."""
        return self._select("token IS NOT NULL AND state = 'pending'")

    def unmailed(self) -> list[OwedOrder]:
        """Settled, and the customer was not informed."""
        return self._select("state <> 'pending' AND mailed = 0")

    def close(self) -> None:
        self._file.close()

    def _select(self, condition: str, *params: str) -> list[OwedOrder]:
        columns = "id, customer, item, token, state, mailed <> 0"
        return [OwedOrder(*row) for row in self._file.execute(f"SELECT {columns} FROM entry WHERE {condition}", params)]
