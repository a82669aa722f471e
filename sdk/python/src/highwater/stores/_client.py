# Generated from _aio.py by scripts/reference/sdk/sync_client.py (make gen).
"""Several stores for the synchronous client: one promise and one session over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from .._core.errors import StorePart
from .._core.requests import OnTimeout
from .._core.stores import parts_of
from .._core.wire import RefusedToken, Verdict
from .._options import DURABLE_TIMEOUT, Cancellation
from .._sync import ended, together
from .._waits import Part, StoresWait, at_level
from ..client import DurabilityPromise, Highwater, Session
from ._base import BaseStores, BaseStoresSession

R = TypeVar("R")


class StoresPromise:
    """One promise for transactions of several stores. Made by `Stores.all`."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts

    def durable(
        self,
        *,
        level: str | None = None,
        timeout: float | None = None,
        on_timeout: OnTimeout = "error",
        cancel: Cancellation | None = None,
    ) -> list[StorePart]:
        """Waits until every transaction is durable, and returns a part for each, in their order.

        The trackers of all stores are asked at the same time. Returns at once if there is nothing
        to wait for. Ending a wait changes nothing: you can wait again. A loss ends the wait at
        once. Any other failure of one store waits for the others, because it must not hide a loss.

        Args:
            level: Level to wait for in all stores. Default: each transaction's own.
            timeout: Time limit of the wait, in seconds. Default: 30. Every wait has a limit.
            on_timeout: What ends a wait while a part is still pending. `error` raises
                `DurabilityTimeoutError`; `pending` returns, and `state` of that part is `pending`.

        Errors: those of `DurabilityPromise.durable`, each with `store` and `parts`.
        `TransactionLostError` or `PromiseBrokenError` if one is lost or broken;
        `DurabilityTimeoutError`, which is not a loss.
        """
        limit = DURABLE_TIMEOUT if timeout is None else timeout
        parts = at_level(self._parts, level)
        found = ended(lambda done: StoresWait(parts, done), limit, cancel=cancel)
        return parts_of(found, may_be_pending=on_timeout == "pending")

    def after_durable(
        self,
        run: Callable[[list[StorePart]], R],
        *,
        level: str | None = None,
        timeout: float | None = None,
        cancel: Cancellation | None = None,
    ) -> R:
        """Runs a function once every transaction is durable, and returns its result.

        If one does not become durable, the function is never called.

        Args:
            run: Function that receives the parts. It is called at most once, in the calling
                thread.
            level: Level to wait for in all stores. Default: each transaction's own.
            timeout: Time limit of the wait, in seconds. Default: 30.

        Errors: those of `durable()` and of the function.
        """
        return run(self.durable(level=level, timeout=timeout, cancel=cancel))


class StoresSession(BaseStoresSession[Session]):
    """A session of each store, with one wait and one token for all of them.

    Made by `Stores.session`. It needs no closing.

    Example:
        stores = Stores({"notes": hw})
        session = stores.session(causal=True)
        session.of("notes").transaction(sql("INSERT INTO note VALUES ({text})", text="hello"))
        header = session.token  # for another process, which has the same names of stores

        following = stores.session(causal=True)
        following.resume(header)
        read = following.of("notes").transaction(sql("SELECT * FROM note"), read_only=True)
        print(len(read.rows) > 0)  # sees the note, on any node
        following.durable(timeout=30)
    """

    def durable(
        self,
        *,
        level: str | None = None,
        timeout: float | None = None,
        on_timeout: OnTimeout = "error",
        cancel: Cancellation | None = None,
    ) -> list[StorePart]:
        """Waits until everything committed or read in this session so far is durable, in any store.

        Returns a part for each store.

        Args:
            level: Level to wait for in all stores. Default: each client's own.
            timeout: Time limit of the wait, in seconds. Default: 30. Every wait has a limit.
            on_timeout: What ends a wait while a part is still pending. `error` raises
                `DurabilityTimeoutError`; `pending` returns, and `state` of that part is `pending`.

        Errors: those of `StoresPromise.durable`. The session then forgets the transactions that
        `parts` report as lost or broken, so the next call waits for the others.
        """
        parts = at_level(self._parts(), level)
        limit = DURABLE_TIMEOUT if timeout is None else timeout
        found = ended(lambda done: StoresWait(parts, done), limit, cancel=cancel)
        return self._ended(parts, found, may_be_pending=on_timeout == "pending")

    def resume(
        self,
        token: str,
        *,
        level: str | None = None,
        wait: float = 0,
        timeout: float | None = None,
        cancel: Cancellation | None = None,
    ) -> dict[str, list[Verdict | RefusedToken]]:
        """Takes over the session of a stored token.

        Asks the trackers of its stores at the same time, and returns the verdicts of each store, as
        `Session.resume` does. A store that is not in the token has none.

        Args:
            token: The `token` of an earlier session over stores.
            level: Level to judge at. Default: each client's own.
            wait: Time that a tracker may hold its answer while a verdict is pending, in seconds; at
                most 60.
            timeout: Time limit of the whole call, in seconds. Default: as for `hw.verdicts`.

        Errors: `invalid_token` if the text is not a token of such a session, `token_too_long`,
        `unknown_store`: nothing was asked then. Those of `hw.verdicts`, with `store`: the other
        stores were taken over, and you can call again.
        """
        stored = self._stored(token)
        calls = [
            partial(self._sessions[name].resume, text, level=level, wait=wait, timeout=timeout, cancel=cancel)
            for name, text in stored.items()
        ]
        return self._resumed(stored, together(calls))


class Stores(BaseStores[Highwater]):
    """Stores of one application by name.

    Makes promises and sessions that span them. Holds nothing that needs closing: close the clients.

    Args:
        clients: Clients by the names of their stores.

    Errors: `invalid_options` if there is no store, a name does not match
    `[A-Za-z][A-Za-z0-9_-]{0,31}`, two names have the same client, or a client is of another kind.

    Example:
        stores = Stores({"notes": hw})
        tx = hw.transaction(sql("INSERT INTO note VALUES ({text})", text="hello"))
        try:
            stores.all([tx]).durable(level="region", timeout=5)
        except TransactionLostError as error:
            print("lost in", error.store)
            for part in error.parts:
                print(part.store, part.state)
    """

    def __init__(self, clients: Mapping[str, Highwater]) -> None:
        super().__init__(clients, Highwater)

    def all(self, promises: Sequence[DurabilityPromise]) -> StoresPromise:
        """Joins promises of these stores into one.

        It is durable when all of them are, and lost when one of them is. Sends nothing.

        Args:
            promises: Committed transactions, or promises of tokens, in any order. Several may be of
                the same store.

        Errors: `unknown_store` if a promise is of another client.
        """
        return StoresPromise(self._parts_of(promises))

    def session(self, *, causal: bool = False) -> StoresSession:
        """Makes a session over all stores: a session of each, with one wait and one token.

        Sends nothing.

        Args:
            causal: Whether reads with `read_only` see everything that the session has committed or
                read in their store before.
        """
        return StoresSession({name: each.session(causal=causal) for name, each in self._clients.items()})
