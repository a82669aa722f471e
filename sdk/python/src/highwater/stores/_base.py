"""What both kinds of stores share: names, parts to wait for, and the token of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .._core.errors import HighwaterError, StorePart, usage_error
from .._core.session import PREFIX
from .._core.stores import EndedPart, check_names, in_store, parse_token, parts_of, render_token, unknown_store
from .._core.wire import RefusedToken, Verdict
from .._promise import BasePromise
from .._session import BaseSession
from .._waits import Part

if TYPE_CHECKING:
    from .._client import BaseClient

C = TypeVar("C", bound="BaseClient[Any, Any]")
S = TypeVar("S", bound=BaseSession)

Verdicts = list[Verdict | RefusedToken]


class BaseStores(Generic[C]):
    """Stores of one application by name.

    Makes promises and sessions that span them. Holds nothing that needs closing: close the clients.
    """

    def __init__(self, clients: Mapping[str, C], kind: type[C]) -> None:
        check_names(clients.keys())
        for name, client in clients.items():
            if not isinstance(client, kind):
                raise usage_error("invalid_options", f"the client of {name} is not an {kind.__name__}")
        if len({id(client) for client in clients.values()}) < len(clients):
            raise usage_error("invalid_options", f"two of {', '.join(clients)} have the same client")
        self._clients = dict(clients)

    def _parts_of(self, promises: Sequence[BasePromise]) -> list[Part]:
        return [
            Part(
                store=self._store_of(each),
                watcher=each._watcher,
                host=each._host,
                entries=[each.entry],
                level=each.level,
                transaction_id=each.id,
            )
            for each in promises
        ]

    def _store_of(self, promise: BasePromise) -> str:
        for name, client in self._clients.items():
            if client._watcher is promise._watcher:
                return name
        raise unknown_store(f"the client of transaction {promise.id}", self._clients)


class BaseStoresSession(Generic[S]):
    def __init__(self, sessions: Mapping[str, S]) -> None:
        self._sessions = dict(sessions)

    @property
    def token(self) -> str:
        """What the session remembers in all stores, as text of at most 8,000 characters.

        It has letters, digits and `_-.~`, so it can be the value of a header or a cookie.
        `Session.token` says which transactions each store has in it.

        Errors: `token_too_long` if more than about 60 transactions are pending. Wait with
        `durable()`, or pass on `of(name).token` of each store.
        """
        return render_token({name: session.token for name, session in self._sessions.items()})

    def of(self, store: str) -> S:
        """Returns the session of one store. It runs transactions there.

        Args:
            store: Name of the store.

        Errors: `unknown_store`.
        """
        session = self._sessions.get(store)
        if session is None:
            raise unknown_store(store, self._sessions)
        return session

    def _parts(self) -> list[Part]:
        return [
            Part(
                store=name,
                watcher=session._watcher,
                host=session._base._host,
                entries=session._open_entries(),
                level=session._level,
            )
            for name, session in self._sessions.items()
        ]

    def _ended(self, parts: Sequence[Part], ended: Sequence[EndedPart], *, may_be_pending: bool) -> list[StorePart]:
        """Returns the parts or raises, and forgets what is reported as lost or broken."""
        for part, each in zip(parts, ended, strict=True):
            if each.is_loss and each.failure is not None:
                self._sessions[part.store]._forget(part.entries, each.failure)
        return parts_of(ended, may_be_pending=may_be_pending)

    def _stored(self, token: str) -> dict[str, str]:
        return parse_token(token, self._sessions.keys(), PREFIX)

    def _resumed(self, stored: Mapping[str, str], found: Sequence[Verdicts | BaseException]) -> dict[str, Verdicts]:
        verdicts: dict[str, Verdicts] = {name: [] for name in self._sessions}
        for name, each in zip(stored, found, strict=True):
            if isinstance(each, HighwaterError):
                raise in_store(each, name) from each
            if isinstance(each, BaseException):
                raise each
            verdicts[name] = each
        return verdicts
