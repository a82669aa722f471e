"""The honest end check.

Asks the service for its final word about every transaction, then asks the database itself, past all
services, what is really there. Every write names its transaction in the application's own tables.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg2  # type: ignore[import-untyped]
from exchange import LEVEL
from highwater import AsyncHighwater, HighwaterError, Verdict
from recorder import Claim

VERDICT_WAIT_S = 10
RESOLVE_TIMEOUT_S = 15.0
RESOLVE_PAUSE_S = 0.2
CONNECT_TIMEOUT_S = 3

_ROWS = """
    SELECT id::text, max(times) FROM (
      SELECT created_by AS id, count(*) AS times FROM auction GROUP BY created_by
      UNION ALL SELECT placed_by, count(*) FROM bid GROUP BY placed_by
      UNION ALL SELECT closed_by, count(*) FROM sale GROUP BY closed_by
    ) AS effects GROUP BY id"""
# What the exchange itself must be able to rely on: at most one sale, to the highest of the bids, in
# a closed auction.
_BAD_SALES = """
    SELECT auction.id::text, 0 FROM auction LEFT JOIN sale ON sale.auction_id = auction.id
    GROUP BY auction.id, auction.state
    HAVING count(sale.id) <> CASE auction.state WHEN 'closed' THEN 1 ELSE 0 END
      OR max(sale.cents) IS DISTINCT FROM CASE auction.state WHEN 'closed'
        THEN (SELECT max(bid.cents) FROM bid WHERE bid.auction_id = auction.id) END"""


@dataclass(frozen=True)
class Fate:
    """What became of a transaction, by the service's final word."""

    kind: str
    """A verdict, or `aborted`, or `never ran`."""
    is_retried: bool = False
    """Lost, and another attempt under the same id committed later."""


@dataclass(frozen=True)
class Findings:
    fates: Mapping[str, int]
    resolved: int
    """Answers that went missing and were found out afterwards."""
    faults: Sequence[str]
    """Every claim that the database contradicts."""


async def check(client: AsyncHighwater, claims: Sequence[Claim], databases: Sequence[str]) -> Findings:
    unanswered = [claim for claim in claims if claim.answer in ("in flight", "unknown")]
    fates = {claim.id: await _resolve(client, claim) for claim in unanswered}
    with_token = [claim for claim in claims if claim.token is not None]
    tokens = [claim.token for claim in with_token if claim.token is not None]
    verdicts = await client.verdicts(tokens, level=LEVEL, wait=VERDICT_WAIT_S)
    for claim, verdict in zip(with_token, verdicts, strict=True):
        fates[claim.id] = Fate(verdict.verdict, isinstance(verdict, Verdict) and verdict.retried_in is not None)
    marks = client.marks
    rows, bad_sales = await asyncio.to_thread(look, databases, "" if marks is None else marks.epoch)
    known = {claim.id for claim in claims}
    faults = [fault for claim in claims for fault in faults_of(claim, fates.get(claim.id, Fate("aborted")), rows)]
    faults += [f"{each}: its rows are there, and nobody ran it" for each in rows if each not in known]
    faults += [f"auction {each}: it was not sold once, to its highest bid" for each in bad_sales]
    kinds = Counter(fates.get(claim.id, Fate("aborted")).kind for claim in claims)
    return Findings(kinds, len(unanswered), faults)


def faults_of(claim: Claim, fate: Fate, rows: Mapping[str, int]) -> list[str]:
    """What is wrong with one claim, given how often each transaction's rows are in the database."""
    found: list[str] = []
    times = rows.get(claim.id, 0)
    if times > 1:
        found.append(f"its effects are there {times} times")
    if claim.answer == "committed" and claim.reported is None:
        found.append(f"its promise never spoke, the verdict is {fate.kind} ({claim.error!r})")
    if claim.reported is not None and claim.reported != fate.kind:
        found.append(f"its promise said {claim.reported}, the verdict is {fate.kind}")
    if claim.read_only:
        gone = [each for each in claim.seen if each not in rows]
        if fate.kind == "durable" and gone:
            found.append(f"durable, but {len(gone)} things it showed are gone")
        return [f"{claim.name} {claim.id}: {each}" for each in found]
    match fate.kind:
        case "durable":
            if claim.wrote is True and times == 0:
                found.append("durable, but its rows are not there")
        case "lost":
            # Unless another attempt under the same id committed later: then the rows are that
            # one's.
            if times > 0 and not fate.is_retried:
                found.append("lost, but its rows are there")
        case "aborted" | "never ran":
            if times > 0:
                found.append(f"{fate.kind}, but its rows are there")
        case "pending":
            pass
        case _:
            found.append(f"its verdict is {fate.kind}")
    return [f"{claim.name} {claim.id}: {each}" for each in found]


async def _resolve(client: AsyncHighwater, claim: Claim) -> Fate:
    """Finds out what became of a transaction whose answer went missing.

    A token, if there is one, goes in the claim.
    """
    # A read without an answer has claimed nothing.
    if claim.read_only:
        return Fate("never ran")
    deadline = time.monotonic() + RESOLVE_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            status = await client.status(claim.id, level=LEVEL)
        except HighwaterError as error:
            claim.error = error
        else:
            if status.state in ("committed", "pending", "durable"):
                claim.token = status.token
                return Fate("pending")
            if status.state != "active":
                return Fate("never ran" if status.state == "unknown" else status.state)
        await asyncio.sleep(RESOLVE_PAUSE_S)
    return Fate("pending")


def look(databases: Sequence[str], epoch: str) -> tuple[Mapping[str, int], Sequence[str]]:
    """Reads each transaction's number of rows, and wrong auctions, from the epoch's primary."""
    for url in databases:
        try:
            connection = psycopg2.connect(url, connect_timeout=CONNECT_TIMEOUT_S)
        except psycopg2.OperationalError:
            continue
        try:
            [(is_replica, newest)] = _query(
                connection,
                "SELECT pg_is_in_recovery(), (SELECT id::text FROM highwater.epoch ORDER BY seq DESC LIMIT 1)",
            )
            if not is_replica and newest == epoch:
                return dict(_query(connection, _ROWS)), [each for each, _ in _query(connection, _BAD_SALES)]
        finally:
            connection.close()
    raise RuntimeError(f"none of the databases is the primary of epoch {epoch}")


def _query(connection: Any, text: str) -> list[tuple[Any, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(text)
        rows: list[tuple[Any, Any]] = cursor.fetchall()
        return rows
