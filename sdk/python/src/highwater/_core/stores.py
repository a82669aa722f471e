"""What a wait for several stores knows of each part, and the token of a session over them.

Pure. `highwater.stores` waits, and asks the trackers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .errors import (
    DurabilityTimeoutError,
    HighwaterError,
    InvalidRequestError,
    PromiseBrokenError,
    StorePart,
    TokenRefusedError,
    TransactionLostError,
    fresh,
    usage_error,
)
from .ids import decode_token
from .wire_types import Verdict as VerdictKind

TOKEN_MAX: Final = 8_000
"""Longest token of a session, in characters: it has to fit into a header."""
_PREFIX: Final = "hwm1"
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}\Z", re.ASCII | re.IGNORECASE)


def is_loss(error: HighwaterError | None) -> bool:
    return isinstance(error, (TransactionLostError, PromiseBrokenError))


@dataclass(frozen=True, slots=True)
class EndedPart:
    """How the wait for one part ended. `failure` is any error, also a timeout."""

    store: str
    transaction_id: str | None
    failure: HighwaterError | None
    is_open: bool = False
    """Whether it was given up without an answer."""

    @property
    def is_loss(self) -> bool:
        return is_loss(self.failure)

    @property
    def is_late(self) -> bool:
        return isinstance(self.failure, DurabilityTimeoutError)

    @property
    def part(self) -> StorePart:
        if self.failure is None or self.is_late:
            is_pending = self.is_open or self.is_late
            return StorePart(self.store, "pending" if is_pending else "durable", self.transaction_id)
        verdict = self.failure.verdict
        state: VerdictKind = "unknown" if isinstance(self.failure, TokenRefusedError) else "pending"
        if verdict is not None:
            state = verdict.verdict
        found = self.transaction_id or self.failure.transaction_id
        return StorePart(self.store, state, found, self.failure)


def parts_of(ended: Sequence[EndedPart], *, may_be_pending: bool) -> list[StorePart]:
    """Returns the parts, or raises the worst failure: a loss before a refusal before a timeout."""
    parts = [each.part for each in ended]
    worst = (
        next((each for each in ended if each.is_loss), None)
        or next((each for each in ended if each.failure is not None and not each.is_late), None)
        or next((each for each in ended if each.is_late), None)
    )
    if worst is None or worst.failure is None or (worst.is_late and may_be_pending):
        return parts
    raise in_store(worst.failure, worst.store, parts)


def in_store(error: HighwaterError, store: str, parts: Sequence[StorePart] = ()) -> HighwaterError:
    """Makes the same error, of the same class, that names the store."""
    named = fresh(error)
    named.args = (f"store {store}: {error.message}",)
    named.store, named.parts = store, tuple(parts)
    return named


def check_names(names: Collection[str]) -> None:
    for name in names:
        if not _NAME.match(name):
            raise usage_error("invalid_options", f"{name} is no name of a store: 1 to 32 letters, digits, _ or -")
    if not names:
        raise usage_error("invalid_options", "name at least one store")


def unknown_store(what: str, names: Iterable[str]) -> InvalidRequestError:
    return usage_error("unknown_store", f"{what} is not one of the stores: {', '.join(names)}")


def render_token(sessions: Mapping[str, str]) -> str:
    """Joins the session tokens of stores. Errors: ``token_too_long``."""
    texts = [f"{name}{token.partition('.')[1]}{token.partition('.')[2]}" for name, token in sessions.items()]
    text = "~".join((_PREFIX, *(each for each in texts if "." in each)))
    _check_length(text, "wait with durable() first")
    return text


def parse_token(text: str, names: Collection[str], prefix: str) -> dict[str, str]:
    """Returns session tokens by store.

    Every token in them is checked here, before any tracker is asked. Errors: ``token_too_long``,
    ``invalid_token``, ``unknown_store``.
    """
    _check_length(text, "it is not a token that a session made")
    first, *stores = text.split("~")
    tokens: dict[str, list[str]] = {}
    for each in stores:
        name, *own = each.split(".")
        if not _NAME.match(name) or not own or name in tokens:
            raise _malformed()
        tokens[name] = own
    if first != _PREFIX:
        raise _malformed()
    for name in tokens:
        if name not in names:
            raise unknown_store(name, names)
    for own in tokens.values():
        for token in own:
            decode_token(token)
    return {name: ".".join((prefix, *own)) for name, own in tokens.items()}


def _check_length(text: str, fix: str) -> None:
    if len(text) > TOKEN_MAX:
        found = f"the session's token has {len(text)} characters, at most {TOKEN_MAX}: {fix}"
        raise usage_error("token_too_long", found)


def _malformed() -> InvalidRequestError:
    return usage_error("invalid_token", "not a token of a session over several stores; pass its token")
