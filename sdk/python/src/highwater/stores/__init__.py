"""One promise and one session over several stores.

A store is a database with its own gateways and trackers; each has a client of its own.

Example:
    from highwater import Highwater, sql
    from highwater.stores import Stores

    with Highwater("https://highwater.example") as orders, Highwater("https://billing.example") as billing:
        stores = Stores({"orders": orders, "billing": billing})
        order = orders.transaction(sql("INSERT INTO note VALUES ({text})", text="an order"))
        invoice = billing.transaction(sql("INSERT INTO note VALUES ({text})", text="its invoice"))
        for part in stores.all([order, invoice]).durable(timeout=10):
            print(part.store, part.state)  # "durable"
"""

from .._core.errors import StorePart
from ._aio import AsyncStores, AsyncStoresPromise, AsyncStoresSession
from ._client import Stores, StoresPromise, StoresSession

__all__ = [
    "AsyncStores",
    "AsyncStoresPromise",
    "AsyncStoresSession",
    "StorePart",
    "Stores",
    "StoresPromise",
    "StoresSession",
]
