"""Values, verdicts and errors as every driver shows them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import traceback
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from highwater import HighwaterError, Position, RefusedToken, Verdict
from highwater.stores import StorePart
from highwater.webhooks import WebhookVerificationError

Json = dict[str, Any]

_MAX_SAFE = 2**53 - 1


class RaisedByBodyError(Exception):
    """What a scenario lets the body of a transaction raise."""


def show(value: object) -> object:
    match value:
        case bool() | None | str():
            return value
        case int():
            return value if abs(value) <= _MAX_SAFE else str(value)
        case float():
            finite = value == value and abs(value) != float("inf")  # noqa: PLR0124 - a number that is none
            return value if finite else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case datetime() if value.tzinfo is not None:
            at = value.astimezone(UTC)
            return {"instant": f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1_000:03d}Z"}
        case date():
            return value.isoformat()
        case Decimal() | UUID():
            return str(value)
        case bytes():
            return {"bytes": value.hex()}
        case list() | tuple():
            return [show(each) for each in value]
        case dict():
            return {key: show(each) for key, each in value.items()}
        case _:
            return str(value)


def milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000)


def show_position(position: Position) -> Json:
    return {"epoch": position.epoch, "offset": str(position.offset)}


def show_verdict(verdict: Verdict | RefusedToken) -> Json:
    if isinstance(verdict, RefusedToken):
        return {"refused": verdict.code}
    return {
        "verdict": verdict.verdict,
        "level": verdict.level,
        "epoch": verdict.position.epoch,
        "offset": str(verdict.position.offset),
        "retriedIn": verdict.retried_in,
        "id": verdict.id,
    }


def show_part(part: StorePart) -> Json:
    return {"store": part.store, "state": part.state, "code": None if part.error is None else part.error.code}


def show_transaction(tx: Any) -> Json:
    results = tx.results
    return {
        "id": tx.id,
        "state": tx.state,
        "replayed": tx.replayed,
        "announced": tx.announced,
        "achieved": tx.achieved,
        "level": tx.level,
        "token": tx.token,
        "results": None if results is None else len(results),
        "served": None if tx.served is None else tx.served.role,
        "rows": None if results is None else show(tx.rows),
        "truncated": bool(results) and results[-1].truncated,
    }


def show_error(error: BaseException, runs: int | None = None) -> Json:
    match error:
        case HighwaterError():
            limit, exposure = error.limit, error.exposure
            return {
                "class": type(error).__name__,
                "code": error.code,
                "outcome": error.outcome,
                "retry": error.retry,
                "status": error.status,
                "sqlstate": error.sqlstate,
                "constraint": error.constraint,
                "statement": error.statement,
                "limit": None if limit is None else {"name": limit.name, "value": limit.value},
                "exposure": None
                if exposure is None
                else {
                    "transactions": exposure.transactions,
                    "bytes": str(exposure.bytes),
                    "oldestMs": milliseconds(exposure.oldest),
                },
                "transactionId": error.transaction_id,
                "open": error.open,
                "retryAfterMs": milliseconds(error.retry_after),
                "token": error.token,
                "state": error.state,
                "message": error.message,
                "level": error.level,
                "metadata": None if error.metadata is None else dict(error.metadata),
                "position": None if error.position is None else show_position(error.position),
                "successor": error.successor,
                "verdict": None if error.verdict is None else show_verdict(error.verdict),
                "runs": runs,
                "store": error.store,
                "parts": [show_part(each) for each in error.parts] or None,
            }
        case WebhookVerificationError():
            return {"class": "WebhookVerificationError", "code": error.code}
        case RaisedByBodyError():
            return {"class": "RaisedByBody", "message": str(error), "runs": runs}
        case asyncio.CancelledError() | concurrent.futures.CancelledError():
            return {"class": "Cancelled"}
        case _:
            return {"class": "DriverError", "message": "".join(traceback.format_exception(error))}
