"""SQLAlchemy's types over the client's values.

Parameters travel as text and get their types from the statement, so each is rendered with a cast.
Values that the client already decodes as SQLAlchemy expects (numbers, dates, UUIDs, JSON, bytes)
need nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import types
from sqlalchemy.dialects.postgresql import (
    ARRAY,
    BYTEA,
    ENUM,
    INTERVAL,
    JSON,
    JSONB,
    OID,
    REGCLASS,
    REGCONFIG,
    base,
    json,
    pg_catalog,
    ranges,
)

from .._values import Multirange
from .._values import Range as ClientRange

Processor = Callable[[Any], Any]

_FLOATS: Final = frozenset({700, 701, 1021, 1022})


class HighwaterString(types.String):
    render_bind_cast = True


class HighwaterChar(types.CHAR):
    render_bind_cast = True


class HighwaterBoolean(types.Boolean):
    render_bind_cast = True


class HighwaterInteger(types.Integer):
    render_bind_cast = True


class HighwaterSmallInteger(types.SmallInteger):
    render_bind_cast = True


class HighwaterBigInteger(types.BigInteger):
    render_bind_cast = True


class _Number:
    """Converts numbers to the kind that was asked for.

    The client decodes a Decimal, a float or an int, by the column's type.
    """

    render_bind_cast = True
    asdecimal: bool
    _effective_decimal_return_scale: int

    def bind_processor(self, dialect: Any) -> None:
        return None

    def result_processor(self, dialect: Any, coltype: object) -> Processor | None:
        if not self.asdecimal:
            return None if coltype in _FLOATS else _to_float
        if coltype not in _FLOATS:
            return None
        scale = self._effective_decimal_return_scale
        return lambda value: None if value is None else Decimal(f"{value:.{scale}f}")


def _to_float(value: Any) -> float | None:
    return None if value is None else float(value)


class HighwaterNumeric(_Number, types.Numeric[Any]):
    pass


class HighwaterFloat(_Number, types.Float[Any]):
    pass


class HighwaterDate(types.Date):
    render_bind_cast = True


class HighwaterTime(types.Time):
    render_bind_cast = True


class HighwaterDateTime(types.DateTime):
    render_bind_cast = True


class HighwaterInterval(INTERVAL):
    render_bind_cast = True

    @classmethod
    def adapt_emulated_to_native(  # type: ignore[override] # as in the library itself
        cls, interval: types.Interval, **kw: Any
    ) -> HighwaterInterval:
        return cls(precision=interval.second_precision)


class HighwaterBytes(BYTEA):
    render_bind_cast = True


class HighwaterJson(JSON):
    render_bind_cast = True

    def result_processor(self, dialect: Any, coltype: object) -> None:
        """Does nothing: the client has parsed it."""


class HighwaterJsonb(JSONB):
    render_bind_cast = True

    def result_processor(self, dialect: Any, coltype: object) -> None:
        """Does nothing: the client has parsed it."""


class HighwaterJsonIndex(types.JSON.JSONIndexType):
    pass


class HighwaterJsonIntIndex(types.JSON.JSONIntIndexType):
    __visit_name__ = "json_int_index"
    render_bind_cast = True


class HighwaterJsonStrIndex(types.JSON.JSONStrIndexType):
    __visit_name__ = "json_str_index"
    render_bind_cast = True


class HighwaterJsonPath(json.JSONPathType):
    pass


class HighwaterEnum(ENUM):
    render_bind_cast = True


class HighwaterArray(ARRAY[Any]):
    render_bind_cast = True


class HighwaterOid(OID):
    render_bind_cast = True


class HighwaterRegclass(REGCLASS):
    render_bind_cast = True


class HighwaterRegconfig(REGCONFIG):
    render_bind_cast = True


class HighwaterInt2Vector(pg_catalog._SpaceVector, pg_catalog.INT2VECTOR):
    cache_ok = True


class HighwaterOidVector(pg_catalog._SpaceVector, pg_catalog.OIDVECTOR):
    cache_ok = True


class HighwaterRange(ranges.AbstractSingleRangeImpl[Any]):
    def bind_processor(self, dialect: Any) -> Processor:
        return _range_in

    def result_processor(self, dialect: Any, coltype: object) -> Processor:
        return _range_out


class HighwaterMultirange(ranges.AbstractMultiRangeImpl[Any]):
    def bind_processor(self, dialect: Any) -> Processor:
        def process(value: Any) -> Any:
            if value is None or isinstance(value, str):
                return value
            return Multirange([_range_in(each) for each in value])

        return process

    def result_processor(self, dialect: Any, coltype: object) -> Processor:
        def process(value: Sequence[Any] | None) -> Any:
            return None if value is None else ranges.MultiRange([_range_out(each) for each in value])

        return process


def _range_in(value: Any) -> Any:
    if not isinstance(value, ranges.Range):
        return value
    return ClientRange(empty=True) if value.empty else ClientRange(value.lower, value.upper, value.bounds)


def _range_out(value: Any) -> Any:
    if not isinstance(value, ClientRange):
        return value
    return ranges.Range(value.lower, value.upper, bounds=value.bounds, empty=value.empty)


COLSPECS: Final[dict[Any, Any]] = {
    **base.PGDialect.colspecs,
    types.String: HighwaterString,
    types.CHAR: HighwaterChar,
    types.Boolean: HighwaterBoolean,
    types.Integer: HighwaterInteger,
    types.SmallInteger: HighwaterSmallInteger,
    types.BigInteger: HighwaterBigInteger,
    types.Numeric: HighwaterNumeric,
    types.Float: HighwaterFloat,
    types.Date: HighwaterDate,
    types.Time: HighwaterTime,
    types.DateTime: HighwaterDateTime,
    types.Interval: HighwaterInterval,
    INTERVAL: HighwaterInterval,
    types.LargeBinary: HighwaterBytes,
    types.JSON: HighwaterJson,
    JSONB: HighwaterJsonb,
    types.JSON.JSONIndexType: HighwaterJsonIndex,
    types.JSON.JSONIntIndexType: HighwaterJsonIntIndex,
    types.JSON.JSONStrIndexType: HighwaterJsonStrIndex,
    types.JSON.JSONPathType: HighwaterJsonPath,
    types.Enum: HighwaterEnum,
    types.ARRAY: HighwaterArray,
    OID: HighwaterOid,
    REGCLASS: HighwaterRegclass,
    REGCONFIG: HighwaterRegconfig,
    pg_catalog.INT2VECTOR: HighwaterInt2Vector,
    pg_catalog.OIDVECTOR: HighwaterOidVector,
    ranges.AbstractSingleRange: HighwaterRange,
    ranges.AbstractMultiRange: HighwaterMultirange,
}
