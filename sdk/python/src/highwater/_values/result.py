"""The result of one statement, as applications get it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .._core.wire import Field, WireResult
from .decode import RowDecoder, TypeDecoders

Row: TypeAlias = dict[str, Any]
"""A row, by column name."""


@dataclass(frozen=True, slots=True)
class StatementResult:
    """The result of one statement."""

    command: str
    """Command tag without the count: ``SELECT``, ``UPDATE``, …"""
    row_count: int
    """Number of rows returned or changed, as PostgreSQL counts them."""
    fields: tuple[Field, ...]
    """The columns, in order."""
    rows: Sequence[Row]
    """Decoded rows. If columns share a name, only the last is here; ``values`` has them all."""
    values: Sequence[Sequence[str | None]]
    """PostgreSQL's original text, by column position."""
    truncated: bool
    """Whether a limit of the service cut off rows."""


ResultDecoder: TypeAlias = Callable[[WireResult], StatementResult]


def result_decoder(types: TypeDecoders | None = None) -> ResultDecoder:
    """Returns a decoder of wire results. It never raises: text that does not fit stays text."""
    decoder = RowDecoder(types)

    def decode(result: WireResult) -> StatementResult:
        names = [field.name for field in result.fields]
        oids = [field.oid for field in result.fields]
        return StatementResult(
            command=result.command,
            row_count=result.row_count,
            fields=result.fields,
            rows=decoder.rows(names, oids, result.rows),
            values=result.rows,
            truncated=result.truncated,
        )

    return decode
