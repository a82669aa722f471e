"""Effects: what the core asks a driver to do.

A generator of the core yields one effect at a time and is sent its result. A driver performs
effects and nothing else: it never retries or judges. If an effect is cancelled or interrupted, the
driver throws that into the generator (or closes it), which then ends.

=================  ================================================================================
effect             result
=================  ================================================================================
``Send``           ``HttpResponse``, or ``NoResponse``; never an exception for either
``Sleep``          None, after that many seconds
``CallBody``       ``Returned`` or ``Raised``: the user's body was called with the transaction
``AwaitDurable``   None once durable; raises what ``durable()`` raises
=================  ================================================================================
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, cast

_T = TypeVar("_T")


@dataclass(slots=True)
class Send:
    """One HTTP exchange, up to the end of the answer's body."""

    method: Literal["GET", "POST"]
    url: str
    headers: Mapping[str, str]
    body: bytes | None
    timeout: float
    """Time limit of the exchange, in seconds."""
    probe: float | None = None
    """Seconds without an answer after which the endpoint's ``/`` is asked for a sign of life.

    If that gets no answer for as long again, the attempt ends as timed out. A slow statement keeps
    its time.
    """
    patience: int = 1
    """Multiple of ``probe`` that a sign of life may take."""


@dataclass(slots=True)
class HttpResponse:
    status: int
    headers: Mapping[str, str]
    """Looked up by lower-case name."""
    body: bytes


@dataclass(slots=True)
class NoResponse:
    """``refused``: there was no connection, so nothing was sent.

    ``broken``: it may have been sent.
    """

    kind: Literal["timeout", "refused", "broken"]
    cause: BaseException | None = None


@dataclass(slots=True)
class Sleep:
    seconds: float


@dataclass(slots=True)
class CallBody:
    """Run the user's function with this transaction, an ``InteractiveCore``."""

    transaction: Any


@dataclass(slots=True)
class Returned:
    value: object


@dataclass(slots=True)
class Raised:
    """An ``Exception`` of the body.

    Interrupts and cancellations are thrown into the generator instead.
    """

    error: Exception


@dataclass(slots=True)
class AwaitDurable:
    """Wait until the transaction is durable at its level, for that many seconds.

    ``committed`` is ``InteractiveCore.committed``.
    """

    committed: Any
    timeout: float


Effect: TypeAlias = Send | Sleep | CallBody | AwaitDurable
Steps: TypeAlias = Generator[Effect, Any, _T]
"""A call of the core: yields effects, is sent their results, and returns the result of the call."""


def send(effect: Send) -> Steps[HttpResponse | NoResponse]:
    return cast("HttpResponse | NoResponse", (yield effect))


def sleep(milliseconds: float) -> Steps[None]:
    if milliseconds > 0:
        yield Sleep(milliseconds / 1_000)
