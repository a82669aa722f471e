"""A shop with two databases: orders in one, invoices in the other.

Each line of the input is the number of an order. It is placed when both are durable. If a failure
discards one of them, the other one is cancelled.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from highwater import Endpoint, Highwater, TransactionLostError, sql
from highwater.stores import StorePart, Stores, StoresSession

#: How long one wait may take, in seconds; the shop then waits again.
PATIENCE = 60


def client_of(store: str) -> Highwater:
    gateways, trackers = (
        os.environ.get(f"{store}_{name}", "http://127.0.0.1").split(",") for name in ("GATEWAYS", "TRACKERS")
    )
    return Highwater(endpoints=[Endpoint(*each) for each in zip(gateways, trackers, strict=True)])


def until_settled(session: StoresSession) -> None:
    """Returns when all is durable. A wait that ends before that is no loss."""
    while any(part.state != "durable" for part in session.durable(timeout=PATIENCE, on_timeout="pending")):
        pass


class Shop:
    def __init__(self, orders: Highwater, billing: Highwater) -> None:
        self.orders = orders
        self.billing = billing
        self.stores = Stores({"orders": orders, "billing": billing})

    def prepare(self) -> None:
        self.orders.transaction(sql("CREATE TABLE IF NOT EXISTS purchase (id int PRIMARY KEY, state text)"))
        self.billing.transaction(sql("CREATE TABLE IF NOT EXISTS invoice (id int PRIMARY KEY, state text)"))

    def place(self, order: int) -> None:
        session = self.stores.session()
        session.of("orders").transaction(sql("INSERT INTO purchase VALUES ({order}, 'placed')", order=order))
        session.of("billing").transaction(sql("INSERT INTO invoice VALUES ({order}, 'due')", order=order))
        print(order, "committed", flush=True)
        try:
            until_settled(session)
            print(order, "durable", flush=True)
        except TransactionLostError as error:
            self.undo(order, error.parts)
            print(f"{order} lost in {error.store}, cancelled", flush=True)

    def undo(self, order: int, parts: Sequence[StorePart]) -> None:
        """Cancels the half of the order that still exists."""
        kept = {part.store for part in parts if part.state != "lost"}
        if "orders" in kept:
            cancel = sql("UPDATE purchase SET state = 'cancelled' WHERE id = {order}", order=order)
            self.orders.transaction(cancel)
        if "billing" in kept:
            self.billing.transaction(sql("UPDATE invoice SET state = 'void' WHERE id = {order}", order=order))


def main() -> None:
    with client_of("ORDERS") as orders, client_of("BILLING") as billing:
        shop = Shop(orders, billing)
        shop.prepare()
        for line in sys.stdin:
            shop.place(int(line))


if __name__ == "__main__":
    main()
