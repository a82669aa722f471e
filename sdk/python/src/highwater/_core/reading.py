"""The checks of what comes back, from the wire's types that ``make gen`` writes.

An answer is read once, here. Fields that this package does not rely on are not looked at, for a
newer service may add fields.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, Final, Literal, NotRequired, TypeAlias, TypeVar, cast, get_args, get_origin

from . import wire, wire_types
from .wire import WireError

_T = TypeVar("_T")
_Read: TypeAlias = Callable[[object], _T]
"""Raises WireError for what is none."""


def _of(*kinds: type) -> _Read[Any]:
    def read(value: object) -> object:
        if type(value) in kinds:
            return value
        raise WireError(f"not of type {kinds[0].__name__}")

    return read


_record, _list, _text, _number, _integer, _flag = _of(dict), _of(list), _of(str), _of(float, int), _of(int), _of(bool)


def _seconds(milliseconds: object) -> float | None:
    return None if milliseconds is None else _number(milliseconds) / 1_000


def _matching(pattern: str, read: Callable[[str], _T]) -> _Read[_T]:
    matches = re.compile(pattern).fullmatch

    def read_matching(value: object) -> _T:
        if isinstance(value, str) and matches(value):
            return read(value)
        raise WireError(f"not of the form {pattern}")

    return read_matching


_uuid = _matching("(?ai:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", str.lower)
_offset = _matching("0|[1-9][0-9]{0,63}", int)


def _absent(_: object) -> None:
    """For a field that this client adds."""


def _one_of(values: Iterable[object]) -> _Read[Any]:
    def read(value: object) -> object:
        if isinstance(value, (str, bool)) and value in values:
            return value
        raise WireError("not a value of the protocol")

    return read


def _or(default: object, read: _Read[object], *lenient: type[WireError]) -> _Read[Any]:
    """For what may be absent or null.

    Lenient: what is not understood is left out as well, and the answer stands.
    """

    def read_or(value: object) -> object:
        if value is None:
            return default
        try:
            return read(value)
        except lenient:
            return default

    return read_or


def _texts(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


_READERS: Final[dict[object, _Read[Any]]] = {str: _text, int: _integer, float: _number, bool: _flag}
"""By the wire's types."""
_READERS.update({wire_types.Uuid: _uuid, wire_types.OffsetText: _offset})


def _reader_of(kind: object) -> _Read[Any]:
    if kind in _READERS:
        return _READERS[kind]
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return _one_of(args)
    inner = _reader_of(args[-1 if origin is dict else 0])
    if origin is list:
        return lambda value: tuple([inner(each) for each in _list(value)])
    if origin is dict:
        return lambda value: {name: inner(each) for name, each in _record(value).items()}
    # What need not be there, or is null.
    return inner if origin is NotRequired else _or(None, inner)


def _reader(make: type[_T], wire_type: object, **own: _Read[object]) -> _Read[_T]:
    """Reads a message of the wire's type into the dataclass.

    ``own`` has the fields that are not read as the wire's type says. A field without a default must
    be there. A field with one only informs, unless the wire's type allows null. Times are
    milliseconds on the wire, and their names say so; here they are seconds.
    """
    types: Mapping[str, object] = cast("Any", wire_type).__annotations__
    table: list[tuple[str, _Read[Any]]] = []
    needed: set[str] = set()
    for each in fields(cast("Any", make)):
        name = re.sub("_(.)", lambda letter: letter[1].upper(), each.name)
        is_time = name not in types and f"{name}Ms" in types
        name = f"{name}Ms" if is_time else name
        read = own.get(each.name) or (_seconds if is_time else _reader_of(types[name]))
        if each.default is MISSING:
            needed.add(name)
        elif each.name not in own and type(None) not in get_args(types[name]):
            read = _or(each.default, read, WireError)
        table.append((name, read))

    def read_message(value: object) -> _T:
        record = _record(value)
        if not needed.issubset(record):
            raise WireError(f"{', '.join(needed.difference(record))} missing")
        return make(*[read(record.get(name)) for name, read in table])

    _READERS[wire_type] = read_message
    return read_message


def _checked(wire_type: type[_T], *names: str) -> _Read[_T]:
    """These fields of the message, as they came."""
    table = [(name, _reader_of(wire_type.__annotations__[name])) for name in names]

    def check(value: object) -> _T:
        record = _record(value)
        return cast("_T", {name: read(record.get(name)) for name, read in table})

    return check


def _rows(value: object) -> Sequence[Sequence[str | None]]:
    rows: Sequence[Sequence[str | None]] = _list(value)
    for row in rows:
        if not isinstance(row, list) or not _CELL_TYPES.issuperset(map(type, row)):
            raise WireError("a row must be a list of strings and nulls")
    return rows


_CELL_TYPES: Final = frozenset((str, type(None)))

read_position = _reader(wire.Position, wire_types.Position, epoch=lambda value: sys.intern(_uuid(value)))
read_marks = _reader(wire.Marks, wire_types.Marks)
_reader(wire.EpochRecord, wire_types.EpochRecord)
_read_epochs = _reader(wire.EpochEvent, wire_types.EpochEvent)
read_marks_response = _reader(wire.MarksResponse, wire_types.MarksResponse)
read_stall_event = _checked(wire_types.StallEvent, "level", "epoch")
read_blind_event = _checked(wire_types.BlindEvent, "blind")
_reader(wire.Field, wire_types.Field)
_reader(wire.WireResult, wire_types.StatementResult, rows=_rows)
_reader(wire.Served, wire_types.Served)
read_transaction_response = _reader(wire.TransactionResponse, wire_types.TransactionResponse)
read_open_transaction_response = _reader(wire.OpenTransactionResponse, wire_types.OpenTransactionResponse)
read_rollback_response = _checked(wire_types.RollbackResponse, "state")
# What has committed is not known without its token and its position.
read_transaction_status = _reader(
    wire.TransactionStatus,
    wire_types.TransactionStateResponse,
    token=_or(None, _text),
    position=_or(None, read_position),
)
_read_judged = _reader(wire.Verdict, wire_types.TokenVerdict, metadata=_absent, read_only=_absent)


def _read_verdict(value: object) -> wire.Verdict | wire.RefusedToken:
    record = _record(value)
    if record.get("error") is None:
        return _read_judged(value)
    error = _record(record["error"])
    _one_of(("unknown",))(record.get("verdict"))
    level = record.get("level")
    token, code, detail = (_text(each) for each in (record.get("token"), error.get("code"), error.get("detail")))
    return wire.RefusedToken(token, level if isinstance(level, str) else "", code, detail)


_READERS[wire_types.TokenVerdict | wire_types.RefusedToken] = _read_verdict


def read_tickets_response(value: object) -> list[tuple[int, Mapping[str, object]]]:
    """Reads the status and the body of each answer."""
    answers = [_record(each) for each in _list(_record(value).get("answers"))]
    return [(_integer(each.get("status")), _record(each.get("body"))) for each in answers]


read_verdicts_response = _reader(wire.VerdictsResponse, wire_types.VerdictsResponse)
_reader(wire.ReachedLimit, wire_types.ReachedLimit)
_reader(wire.AtRisk, wire_types.AtRisk)
_reader(wire.Evidence, wire_types.Evidence, state=_text)
_read_problem = _reader(wire.Problem, wire_types.Problem, message=lambda _: "", fields=_texts)


def read_problem(value: object) -> wire.Problem:
    problem = _read_problem(value)
    texts = [each for each in (_record(value).get("detail"), _record(value).get("title")) if isinstance(each, str)]
    problem.message = next(filter(None, texts), problem.code)
    return problem


def read_epoch_event(value: object) -> wire.EpochEvent:
    event = _read_epochs(value)
    if not event.epochs:
        raise WireError("an epoch event has no epoch")
    return event
