"""Runs auctions on a running system, then compares every promise with the database.

    PYTHONPATH=sdk/python/src .venv/bin/python examples/ad-exchange/python/main.py

Exit code 1 if a promise was wrong. SIGTERM and Ctrl-C end the auctions, not the check.
Settings from the environment:

    SECONDS     how long the auctions last; default 20
    GATEWAYS    addresses with commas, nearest first; default: of `make up PORT_BASE=4600`
    TRACKERS    the same
    DATABASES   the same, of all nodes, with a role that may read everything
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time

from check import Findings, check
from exchange import LEVEL, Exchange
from highwater import AsyncHighwater, Endpoint
from publishers import Publishers
from recorder import Recorder

SIGNALS = (signal.SIGTERM, signal.SIGINT)
FAULTS_PRINTED = 5
#: How often the current state is printed.
PRINT_EVERY_S = 1.0


def _setting(name: str, template: str) -> list[str]:
    """By commas. Default: those of the three regions of the dev system."""
    return os.environ.get(name, ",".join(template.format(port) for port in (460, 461, 462))).split(",")


async def run() -> bool:
    # What is lost is counted below; the SDK would log each by itself.
    logging.getLogger("highwater").setLevel(logging.ERROR)
    ended = asyncio.Event()
    for each in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(each, ended.set)
    gateways, trackers = _setting("GATEWAYS", "http://127.0.0.1:{}0"), _setting("TRACKERS", "http://127.0.0.1:{}1")
    endpoints = [Endpoint(*each) for each in zip(gateways, trackers, strict=True)]
    async with AsyncHighwater(endpoints=endpoints, level=LEVEL) as client:
        recorder = Recorder(client)
        await Exchange(client).create_tables()
        publishers = Publishers(Exchange(recorder))
        await _print_progress(recorder, ended, float(os.environ.get("SECONDS", "20")))
        # From now on a client that asks again means it.
        for each in SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(each)
        print("no more pages; waiting for the last answers and verdicts", flush=True)
        await publishers.stop()
        await recorder.settled()
        findings = await check(
            client, recorder.claims, _setting("DATABASES", "postgresql://postgres@127.0.0.1:{}2/app")
        )
    return _report(publishers, findings)


async def _print_progress(recorder: Recorder, ended: asyncio.Event, seconds: float) -> None:
    """Until the time is over, or the program gets a signal to end."""
    begin = time.monotonic()
    while not ended.is_set() and (now := time.monotonic() - begin) < seconds:
        counts = [
            f"{recorder.count(reported)} {reported or 'pending'}" for reported in ("durable", None, "lost", "broken")
        ]
        print(f"{now:4.0f} s  {', '.join(counts)}", flush=True)
        try:
            async with asyncio.timeout(PRINT_EVERY_S):
                await ended.wait()
        except TimeoutError:
            pass


def _report(publishers: Publishers, findings: Findings) -> bool:
    print("Pages: " + ", ".join(f"{count} {what}" for what, count in publishers.tally.most_common()))
    for fault in findings.faults[:FAULTS_PRINTED]:
        print(f"  {fault}")
    kinds = {kind: findings.fates.get(kind, 0) for kind in ("durable", "lost", "pending", "aborted", "never ran")}
    print(json.dumps({**kinds, "resolved": findings.resolved, "wrong": len(findings.faults)}))
    return len(findings.faults) == 0 and kinds["pending"] == 0


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(run()) else 1)
