"""What the core asks of the world. A generator of the core yields one effect at a time and is sent its result.

A driver does what an effect says and nothing else: no retry, no judgement. If what it does is cancelled or interrupted,
it throws that into the generator (or closes it), which then ends.

=================  ==========================================================================================
effect             result
=================  ==========================================================================================
``Send``           ``Answer``, or ``NoAnswer`` where none came; never an exception for either
``Sleep``          None, after so many seconds
``CallBody``       ``Returned`` or ``Raised``: the body of the user's was called with the transaction
``AwaitDurable``   None once durable; raises what ``durable()`` raises
=================  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

if TYPE_CHECKING:
    from .interactive import InteractiveCore

_T = TypeVar("_T")


@dataclass(slots=True)
class Send:
    """One HTTP exchange, to the end of the answer's body."""

    method: Literal["GET", "POST"]
    url: str
    headers: Mapping[str, str]
    body: bytes | None
    timeout: float
    """Seconds for all of it."""
    probe: float | None = None
    """After so many seconds without an answer the endpoint's ``/`` is asked for a sign of life; as long again without
    any answer to that ends the attempt as timed out. A slow statement is left to its time."""
    patience: int = 1
    """How many times as long a sign of life may take."""


@dataclass(slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    """Looked up by lower-case name."""
    body: bytes


@dataclass(slots=True)
class NoAnswer:
    """``refused``: the connection never came to be, so nothing was sent. ``broken``: it may have been sent."""

    kind: Literal["timeout", "refused", "broken"]
    cause: BaseException | None = None


@dataclass(slots=True)
class Sleep:
    seconds: float


@dataclass(slots=True)
class CallBody:
    """Run the user's function with this transaction."""

    transaction: InteractiveCore[Any]


@dataclass(slots=True)
class Returned:
    value: object


@dataclass(slots=True)
class Raised:
    """Only what the body may fail with (``Exception``); interrupts and cancellations are thrown into the generator."""

    error: Exception


@dataclass(slots=True)
class AwaitDurable:
    """Wait until what ``InteractiveCore.committed`` is, is durable at its level, for so many seconds."""

    committed: Any
    timeout: float


Effect: TypeAlias = Send | Sleep | CallBody | AwaitDurable
Steps: TypeAlias = Generator[Effect, Any, _T]
"""A call of the core: yields effects, is sent their results, and returns what the call is for."""


def send(effect: Send) -> Steps[Answer | NoAnswer]:
    return cast("Answer | NoAnswer", (yield effect))


def sleep(milliseconds: float) -> Steps[None]:
    if milliseconds > 0:
        yield Sleep(milliseconds / 1_000)
