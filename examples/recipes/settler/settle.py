"""Takes tokens from the queue in batches, asks for their verdicts, and records them.

It may be killed at any moment, and several may run. SIGTERM ends it. Settings from the environment:

    QUEUE         the file; default queue.sqlite
    TAKEN_FOR_S   how long a batch is one settler's; more than a tracker needs; default 60
    GATEWAYS      addresses with commas, nearest first; default: of `make up PORT_BASE=4600`
    TRACKERS      the same
"""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from highwater import Endpoint, Highwater, HighwaterError, RefusedToken, Verdict

BATCH = 500
#: What is pending is asked about again after so long.
AGAIN_MS = 500
#: Between batches that are not full, so that the next one has more in it.
PAUSE_S = 0.2
LEVEL = "region"


@dataclass(frozen=True)
class Taken:
    id: str
    token: str


@dataclass(frozen=True)
class Settlement:
    id: str
    verdict: str


class Queue:
    """The settler's side of the queue."""

    def __init__(self, path: str, *, taken_for_s: float) -> None:
        self._file = sqlite3.connect(path, timeout=10, isolation_level=None)
        self._file.executescript((Path(__file__).parent / "queue.sql").read_text())
        self._taken_for_ms = round(taken_for_s * 1_000)

    def take(self) -> list[Taken]:
        """The oldest that are due.

        They are due again after a while, unless they are settled before.
        """
        rows = self._file.execute(
            """UPDATE queue SET due_ms = ? WHERE id IN
                 (SELECT id FROM queue WHERE token IS NOT NULL AND due_ms <= ? ORDER BY due_ms, id LIMIT ?)
               RETURNING id, token""",
            (_now_ms() + self._taken_for_ms, _now_ms(), BATCH),
        )
        return [Taken(*row) for row in rows.fetchall()]

    def acknowledge(self, settlements: Sequence[Settlement]) -> int:
        """Notes what became of each and takes it out of the queue: both or neither.

        Returns how many were new.
        """
        new = 0
        self._file.execute("BEGIN IMMEDIATE")
        for each in settlements:
            # Another settler may have been quicker, if this one had it for too long.
            if self._file.execute("DELETE FROM queue WHERE id = ?", (each.id,)).rowcount == 1:
                self._file.execute("INSERT INTO settlement (id, verdict) VALUES (?, ?)", (each.id, each.verdict))
                new += 1
        self._file.execute("COMMIT")
        return new

    def leave(self, rest: Sequence[Taken]) -> None:
        due = _now_ms() + AGAIN_MS
        self._file.executemany("UPDATE queue SET due_ms = ? WHERE id = ?", [(due, each.id) for each in rest])

    def close(self) -> None:
        self._file.close()


def settlement_of(taken: Taken, judged: Verdict | RefusedToken) -> Settlement | None:
    """None while it is unknown."""
    if isinstance(judged, RefusedToken):
        return Settlement(taken.id, judged.code)
    return None if judged.verdict in ("pending", "unknown") else Settlement(taken.id, judged.verdict)


def settle_batch(hw: Highwater, queue: Queue) -> bool:
    """Whether there was a full batch: then there may be more."""
    batch = queue.take()
    if not batch:
        return False
    try:
        judged = hw.verdicts([each.token for each in batch], level=LEVEL)
    except HighwaterError as error:
        print(f"no verdicts now: {error}", flush=True)
        queue.leave(batch)
        return False
    by_token = {each.token: each for each in judged}
    found = {each.id: settlement_of(each, by_token[each.token]) for each in batch}
    settled = [each for each in found.values() if each is not None]
    queue.acknowledge(settled)
    queue.leave([each for each in batch if found[each.id] is None])
    counts = Counter(each.verdict for each in settled)
    counted = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    print(f"settled {counted or 'none'}; {len(batch) - len(settled)} left for later", flush=True)
    return len(batch) == BATCH


def main() -> None:
    gateways = os.environ.get("GATEWAYS", "http://127.0.0.1:4600,http://127.0.0.1:4610,http://127.0.0.1:4620")
    trackers = os.environ.get("TRACKERS", "http://127.0.0.1:4601,http://127.0.0.1:4611,http://127.0.0.1:4621")
    endpoints = [Endpoint(*each) for each in zip(gateways.split(","), trackers.split(","), strict=True)]
    queue = Queue(os.environ.get("QUEUE", "queue.sqlite"), taken_for_s=float(os.environ.get("TAKEN_FOR_S", "60")))
    is_ending = False

    def end(_signal: int, _frame: object) -> None:
        nonlocal is_ending
        is_ending = True

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, end)
    with Highwater(endpoints=endpoints) as hw:
        while not is_ending:
            if not settle_batch(hw, queue):
                time.sleep(PAUSE_S)
    queue.close()


def _now_ms() -> int:
    return round(time.time() * 1_000)


if __name__ == "__main__":
    main()
