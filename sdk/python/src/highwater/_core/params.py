"""Converts Python values to parameters on the wire: JSON scalars, or PostgreSQL's text.

A type of your own can define ``__highwater_param__() -> str | int | float | bool | None``. Answers
are decoded elsewhere.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import ipaddress
import json
import math
import uuid
from collections.abc import Callable, Mapping
from typing import Final, Protocol, cast

from .errors import usage_error
from .wire_types import Param

_SAFE_INTEGER_MAX: Final = 2**53 - 1
_WRITABLE_BITS: Final = 2_048


class SupportsParam(Protocol):
    """A value that defines its own parameter."""

    def __highwater_param__(self) -> Param: ...


def to_param(value: object, name: str = "a value") -> Param:
    """Converts one value to its form on the wire.

    Shape: str, bool, None and numbers that a double holds exactly pass as they are. Other numbers,
    dates, times, UUIDs and addresses become PostgreSQL's text, a timedelta an interval, bytes
    ``\\x`` hex, lists and tuples arrays, dicts JSON text. A member of an enum that is neither str
    nor int becomes its name.

    Errors: ``invalid_parameter`` for anything else, with the parameter's `name`.
    """
    if value is None or value is True or value is False:
        return value
    if type(value) is str:
        return value
    own = _own_param(value)
    if own is not None:
        return own()
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        number = int(value)
        # The service reads JSON numbers as doubles.
        return number if -_SAFE_INTEGER_MAX <= number <= _SAFE_INTEGER_MAX else _integer_text(number)
    if isinstance(value, float):
        return _float_param(float(value))
    if isinstance(value, (list, tuple)):
        return _array_text(value)
    if isinstance(value, Mapping):
        return json_text(value)
    text = _text_of(value)
    if text is None:
        raise usage_error(
            "invalid_parameter",
            f"{name} has type {type(value).__name__}, which is not supported; use None for NULL",
        )
    return text


def _own_param(value: object) -> Callable[[], Param] | None:
    # Not isinstance: for a protocol it takes longer than the rest of a statement together.
    if not hasattr(type(value), "__highwater_param__"):
        return None
    return cast("SupportsParam", value).__highwater_param__


def _integer_text(value: int) -> str:
    # numeric holds more digits than str() is willing to write.
    return str(value) if value.bit_length() < _WRITABLE_BITS else format(decimal.Decimal(value), "f")


def _float_param(value: float) -> Param:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    # JSON has a negative zero, but not every reader supports it.
    return "-0" if value == 0 and math.copysign(1, value) < 0 else value


def _text_of(value: object) -> str | None:
    match value:
        case decimal.Decimal():
            return "NaN" if value.is_nan() else str(value)
        case dt.datetime() | dt.date():
            return value.isoformat()
        case dt.time():
            return _time_text(value)
        case dt.timedelta():
            return _interval_text(value)
        case enum.Enum():
            # An enum that is also a str or an int was handled as such.
            return value.name
        case uuid.UUID():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return f"\\x{bytes(value).hex()}"
        case (
            ipaddress.IPv4Address()
            | ipaddress.IPv6Address()
            | ipaddress.IPv4Network()
            | ipaddress.IPv6Network()
            | ipaddress.IPv4Interface()
            | ipaddress.IPv6Interface()
        ):
            return str(value)
        case _:
            return None


def _interval_text(value: dt.timedelta) -> str:
    # Days are separate, because PostgreSQL's days do not always have 24 hours. They share the sign
    # of the rest: minus four hours is not minus a day plus twenty hours.
    size, sign = abs(value), "-" if value < dt.timedelta() else ""
    return f"{sign}{size.days} days {sign}{size.seconds} seconds {sign}{size.microseconds} microseconds"


def _time_text(value: dt.time) -> str:
    if value.tzinfo is not None and value.utcoffset() is None:
        raise usage_error("invalid_parameter", "the time's zone has no offset without a date; use a fixed offset")
    return value.isoformat()


def json_text(value: object) -> str:
    """Converts a value to JSON text. Decimals, UUIDs, dates and times inside it become strings.

    Errors: ``invalid_parameter``, also for NaN and infinities, which JSON does not have.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_json_default)
    except (TypeError, ValueError, RecursionError) as error:
        raise usage_error("invalid_parameter", f"the value has no JSON form: {error}", error) from error


def _json_default(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    own = _own_param(value)
    if own is not None:
        return own()
    text = None if isinstance(value, (bytes, bytearray, memoryview)) else _text_of(value)
    if text is None:
        raise TypeError(f"JSON cannot hold type {type(value).__name__}")
    return text


def _array_text(items: list[object] | tuple[object, ...]) -> str:
    return f"{{{','.join(map(_element_text, items))}}}"


def _element_text(item: object) -> str:
    if isinstance(item, (list, tuple)) and _own_param(item) is None:
        return _array_text(item)
    param = to_param(item)
    if param is None:
        return "NULL"
    if param is True:
        return "true"
    if param is False:
        return "false"
    if isinstance(param, str):
        escaped = param.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(param)
