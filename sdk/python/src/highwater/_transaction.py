"""A committed transaction as both clients hold it: its results, its state and its promise."""

from __future__ import annotations

from collections.abc import Sequence

from ._background import Host
from ._core.errors import results_not_kept
from ._core.pending_set import PendingPromise
from ._core.wire import Served, TransactionResponse
from ._core.wire_types import TransactionState
from ._promise import BasePromise
from ._values import ResultDecoder, Row, StatementResult
from ._watcher import Watcher


class BaseTransaction(BasePromise):
    __slots__ = ("_answered", "achieved", "announced", "kept", "replayed", "results", "served")

    def __init__(
        self,
        watcher: Watcher,
        host: Host,
        entry: PendingPromise,
        *,
        response: TransactionResponse,
        level: str,
        decode: ResultDecoder,
    ) -> None:
        super().__init__(watcher, host, entry, position=response.position, level=level)
        self._answered = response.state
        self.results: Sequence[StatementResult] | None = (
            None if response.results is None else tuple(decode(each) for each in response.results)
        )
        """Results by statement. None if `replayed`: the service does not keep results."""
        self.replayed: bool = response.replayed
        """Whether an earlier attempt under this id, whose answer was lost, decided this outcome."""
        self.announced: bool = response.announced
        """Whether a tracker had this transaction on disk when the answer was sent."""
        self.kept: bool | None = response.kept
        """Whether a tracker had the contents on disk when the answer was sent.

        None if they were not to be kept, or after a replay.
        """
        self.achieved: str | None = response.achieved
        """The strongest level at which it was durable when the answer came; None: none yet.

        A key's minimum level can raise it above what was asked for.
        """
        self.served: Served | None = response.served
        """For reads with `after`, `mode` or `reads`: the node, and how far it may be behind."""

    @property
    def state(self) -> TransactionState:
        """At first `committed` or `pending`, then the verdict at the transaction's level."""
        verdict = self.verdict()
        return self._answered if verdict is None else verdict.verdict

    @property
    def rows(self) -> Sequence[Row]:
        """Decoded rows of the last statement.

        Errors: `results_not_kept` after a replay, because an empty list would be a wrong answer.
        """
        if self.results is None:
            raise results_not_kept(self.id)
        return self.results[-1].rows if self.results else ()
