"""FastAPI behind the gate, for uvicorn.

Settings come from the environment:

    GATEWAYS   addresses with commas, nearest first
    TRACKERS   the same
    GATE       seconds that a response may be held; empty: no gate
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from highwater import AsyncHighwater, Endpoint, new_transaction_id, sql
from highwater.gate import OutputGate, receipt_status
from pydantic import BaseModel

SCHEMA = (Path(__file__).parent.parent / "schema.sql").read_text()
GATE = os.environ.get("GATE", "5")


class NewOrder(BaseModel):
    item: str


pairs = zip(os.environ["GATEWAYS"].split(","), os.environ["TRACKERS"].split(","), strict=True)
hw = AsyncHighwater(endpoints=[Endpoint(*each) for each in pairs])
app = FastAPI()
if GATE:
    app.add_middleware(OutputGate, hw=hw, timeout=float(GATE))


@app.post("/orders", status_code=201)
async def place(order: NewOrder) -> dict[str, str]:
    order_id = new_transaction_id()
    await hw.transaction(
        sql("INSERT INTO recipe_order VALUES ({id}, {item})", id=order_id, item=order.item), id=order_id
    )
    return {"id": order_id, "item": order.item}


@app.get("/orders")
async def newest() -> list[Any]:
    read = await hw.transaction(
        sql("SELECT id::text, item FROM recipe_order ORDER BY id DESC LIMIT 20"), read_only=True
    )
    return [{"id": row["id"], "item": row["item"]} for row in read.rows]


@app.get("/receipts/{receipt}")
async def poll(receipt: str) -> Response:
    found = await receipt_status(hw, receipt)
    return JSONResponse(dict(found.body), found.status)
