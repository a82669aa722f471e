"""PostgreSQL's ranges and multiranges, and their text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, cast

from .._core.params import to_param
from .._core.wire_types import Param

T = TypeVar("T")
Bounds: TypeAlias = Literal["[)", "[]", "(]", "()"]

_BOUND: Final = r'(?:"(?:[^"\\]|\\.|"")*"|[^",()\[\]\\]|\\.)*'
_RANGE: Final = re.compile(rf"([\[(])({_BOUND}),({_BOUND})([\])])", re.DOTALL)
_PIECE: Final = re.compile(r'"((?:[^"\\]|\\.|"")*)"|([^"\\]|\\.)', re.DOTALL)
_ESCAPED: Final = re.compile(r'\\(.)|""', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Range(Generic[T]):
    """A range from PostgreSQL. It can also be a parameter.

    A bound that is ``None`` is unbounded; ``Range(empty=True)`` contains nothing. A bound that
    Python's type cannot hold (the date ``infinity``) is PostgreSQL's text.

    Errors: ``ValueError`` for other ``bounds``, and for an empty range with bounds.
    """

    lower: T | None = None
    """Lower bound; None if unbounded."""
    upper: T | None = None
    """Upper bound; None if unbounded."""
    bounds: Bounds = "[)"
    """Which bounds belong to the range: ``[`` and ``]`` do, ``(`` and ``)`` do not."""
    empty: bool = False
    """Whether the range is empty; it then has no bounds."""

    def __post_init__(self) -> None:
        if self.bounds not in ("[)", "[]", "(]", "()"):
            raise ValueError(f"bounds must be one of '[)', '[]', '(]', '()', not {self.bounds!r}")
        if self.empty and not (self.lower is None and self.upper is None):
            raise ValueError("an empty range must have no bounds")

    def __highwater_param__(self) -> Param:
        return _text_of(self)

    def __contains__(self, value: object) -> bool:
        if self.empty or value is None:
            return False
        other = cast("Any", value)
        lower, upper = cast("Any", self.lower), cast("Any", self.upper)
        above = lower is None or (other >= lower if self.bounds[0] == "[" else other > lower)
        return above and (upper is None or bool(other <= upper if self.bounds[1] == "]" else other < upper))


class Multirange(tuple[Range[T], ...]):
    """The ranges of a multirange, in the order of the database. Multiranges have no empty ranges.

    A separate tuple type that can be a parameter; a list of ranges is an array of ranges instead.
    """

    __slots__ = ()

    def __new__(cls, ranges: Iterable[Range[T]] = ()) -> Multirange[T]:
        return super().__new__(cls, (each for each in ranges if not each.empty))

    def __highwater_param__(self) -> Param:
        return "{" + ",".join(map(_text_of, self)) + "}"

    def __repr__(self) -> str:
        return f"Multirange({list(self)!r})"


def parse_range(text: str, decode: Callable[[str], object]) -> Range[Any]:
    """Parses a range. Errors: ``ValueError`` if the text is not a range."""
    if text == "empty":
        return Range(empty=True)
    parts = _RANGE.fullmatch(text)
    if parts is None:
        raise ValueError(f"not a range: {text!r}")
    return _range_of(parts, decode)


def parse_multirange(text: str, decode: Callable[[str], object]) -> Multirange[Any]:
    """Parses a multirange. Errors: ``ValueError`` if the text is not a multirange."""
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError(f"not a multirange: {text!r}")
    ranges: list[Range[Any]] = []
    at, end = 1, len(text) - 1
    while at < end:
        parts = _RANGE.match(text, at, end)
        if parts is None:
            raise ValueError(f"not a multirange: {text!r}")
        ranges.append(_range_of(parts, decode))
        at = parts.end()
        if at < end and text[at] != ",":
            raise ValueError(f"not a multirange: {text!r}")
        at += 1
    return Multirange(ranges)


def _range_of(parts: re.Match[str], decode: Callable[[str], object]) -> Range[Any]:
    lower, upper = (None if parts[at] == "" else decode(_unquote(parts[at])) for at in (2, 3))
    return Range(lower, upper, cast("Bounds", parts[1] + parts[4]))


def _unquote(bound: str) -> str:
    if '"' not in bound and "\\" not in bound:
        return bound
    return "".join(
        _ESCAPED.sub(lambda each: each[1] or '"', quoted) if quoted or not plain else plain[-1]
        for quoted, plain in _PIECE.findall(bound)
    )


def _text_of(value: Range[Any]) -> str:
    """Returns the text that PostgreSQL reads as the range."""
    if value.empty:
        return "empty"
    lower, upper = ("" if bound is None else _bound_text(bound) for bound in (value.lower, value.upper))
    return f"{value.bounds[0]}{lower},{upper}{value.bounds[1]}"


def _bound_text(bound: object) -> str:
    text = str(to_param(bound))
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
