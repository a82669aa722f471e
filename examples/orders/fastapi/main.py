"""The shop's HTTP, for uvicorn.

    PYTHONPATH=sdk/python/src .venv/bin/python -m uvicorn --app-dir examples/orders/fastapi \
        --port 3001 main:app

Settings come from the environment:

    BOOK       the file of what is owed: orders.sqlite. One process at a time
    SMTP_URL   smtp://127.0.0.1:2525
    GATEWAYS   addresses by commas, the nearest region first: those of `make up PORT_BASE=4600`
    TRACKERS   the same
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from book import Book, State
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from highwater import AsyncHighwater, Endpoint, HighwaterError
from mailer import mailer
from orders import Orders
from pydantic import BaseModel, ConfigDict, Field


class NewOrder(BaseModel):
    model_config = ConfigDict(extra="forbid")

    customer: str = Field(pattern=r"^[^@\s]+@[^@\s]+$", max_length=200)
    item: str = Field(min_length=1, max_length=200)


class TakenOrder(BaseModel):
    id: str
    state: State


class Order(TakenOrder):
    customer: str
    item: str


def _setting(name: str, default: str) -> str:
    return os.environ.get(name, default)


def _endpoints() -> list[Endpoint]:
    gateways = _setting("GATEWAYS", "http://127.0.0.1:4600,http://127.0.0.1:4610,http://127.0.0.1:4620")
    trackers = _setting("TRACKERS", "http://127.0.0.1:4601,http://127.0.0.1:4611,http://127.0.0.1:4621")
    return [Endpoint(*each) for each in zip(gateways.split(","), trackers.split(","), strict=True)]


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    book = Book(_setting("BOOK", "orders.sqlite"))
    orders = Orders(AsyncHighwater(endpoints=_endpoints()), book, mailer(_setting("SMTP_URL", "smtp://127.0.0.1:2525")))
    app.state.orders = orders
    await orders.start()
    yield
    # uvicorn comes here on SIGTERM, when the requests under way have their answers.
    await orders.stop()


def _orders(request: Request) -> Orders:
    orders: Orders = request.app.state.orders
    return orders


app = FastAPI(lifespan=_lifespan)
TheOrders = Annotated[Orders, Depends(_orders)]


@app.exception_handler(HighwaterError)
async def not_taken(_request: Request, error: HighwaterError) -> JSONResponse:
    return JSONResponse({"error": f"the order was not taken: {error.code}"}, status_code=503)


@app.post("/orders", status_code=201)
async def place(order: NewOrder, response: Response, orders: TheOrders) -> TakenOrder:
    placed = await orders.place(customer=order.customer, item=order.item)
    if not placed.is_committed:
        response.status_code = 202
    response.headers["location"] = f"/orders/{placed.id}"
    return TakenOrder(id=placed.id, state="pending")


@app.get("/orders/{order_id}")
async def find(order_id: str, orders: TheOrders) -> Order:
    entry = orders.find(order_id)
    if entry is None:
        raise HTTPException(404, "there is no such order")
    return Order(id=entry.id, customer=entry.customer, item=entry.item, state=entry.state)
