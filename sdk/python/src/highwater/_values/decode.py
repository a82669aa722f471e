"""Converts PostgreSQL's text to Python values, by type OID.

int8 and numeric never pass through a float. Text that does not fit its type stays text: the
transaction has committed, and that matters more than one value.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from .arrays import decode_array
from .ranges import parse_multirange, parse_range
from .times import (
    decode_date,
    decode_instant,
    decode_interval,
    decode_time,
    decode_time_with_zone,
    decode_timestamp,
)

TypeDecoder: TypeAlias = Callable[[str], object]
"""Function that converts the text of one type.

If it raises, the value stays text, because the transaction has committed.
"""
TypeDecoders: TypeAlias = Mapping[int, TypeDecoder] | Literal["raw"]
"""Decoders by type OID that replace the built-in ones, also in arrays and ranges.

``raw``: all values stay text.
"""

_OCTAL: Final = re.compile(rb"\\(\\|[0-3][0-7][0-7])")


def _decode_bool(text: str) -> object:
    return {"t": True, "f": False}.get(text, text)


def decode_bytes(text: str) -> bytes:
    """Decodes both formats of ``bytea_output``.

    The older one doubles backslashes, so its text never begins with ``\\x``.
    """
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    return _OCTAL.sub(lambda byte: b"\\" if byte[1] == b"\\" else bytes([int(byte[1], 8)]), text.encode("ascii"))


def _decode_inet(text: str) -> object:
    return ipaddress.ip_interface(text) if "/" in text else ipaddress.ip_address(text)


_SCALARS: Final[Mapping[int, TypeDecoder]] = {
    16: _decode_bool,
    17: decode_bytes,
    20: int,
    21: int,
    23: int,
    26: int,
    114: json.loads,
    650: ipaddress.ip_network,
    700: float,
    701: float,
    869: _decode_inet,
    1082: decode_date,
    1083: decode_time,
    1114: decode_timestamp,
    1184: decode_instant,
    1186: decode_interval,
    1266: decode_time_with_zone,
    1700: Decimal,
    2950: UUID,
    3802: json.loads,
}
# Ranges and multiranges, each with the type of its bounds: int4, num, ts, tstz, date, int8.
_RANGES: Final[Mapping[int, int]] = {3904: 23, 3906: 1700, 3908: 1114, 3910: 1184, 3912: 1082, 3926: 20}
_MULTIRANGES: Final[Mapping[int, int]] = {4451: 23, 4532: 1700, 4533: 1114, 4534: 1184, 4535: 1082, 4536: 20}


def _pairs(text: str) -> dict[int, int]:
    return {int(array): int(element) for array, element in (pair.split(":") for pair in text.split())}


# Arrays of built-in types, with the type of their elements. Arrays of boxes use semicolons and stay
# text.
_ARRAYS: Final[Mapping[int, int]] = _pairs(
    "1000:16 1001:17 1002:18 1003:19 1016:20 1005:21 1006:22 1007:23 1008:24 1009:25 1028:26 1010:27 1011:28 1012:29 "
    "1013:30 199:114 143:142 271:5069 1017:600 1018:601 1019:602 1027:604 629:628 1021:700 1022:701 719:718 "
    "791:790 1040:829 1041:869 651:650 775:774 1034:1033 1014:1042 1015:1043 1182:1082 1183:1083 1115:1114 1185:1184 "
    "1187:1186 1270:1266 1561:1560 1563:1562 1231:1700 2201:1790 2207:2202 2208:2203 2209:2204 2210:2205 4192:4191 "
    "2211:2206 4097:4096 4090:4089 2951:2950 3221:3220 3643:3614 3644:3642 3645:3615 3735:3734 3770:3769 3807:3802 "
    "4073:4072 2949:2970 5039:5038 3905:3904 3907:3906 3909:3908 3911:3910 3913:3912 3927:3926 6150:4451 6151:4532 "
    "6152:4533 6153:4534 6155:4535 6157:4536"
)
# Every table creates types, and tables come and go.
_KNOWN_TYPES_MAX: Final = 4096


def _as_text(text: str) -> str:
    return text


def _or_text(decode: TypeDecoder) -> TypeDecoder:
    def decode_or_keep(text: str) -> object:
        try:
            return decode(text)
        except Exception:  # noqa: BLE001 - whatever is wrong, the transaction has committed
            return text

    return decode_or_keep


def decoder_of(oid: int, types: TypeDecoders | None = None) -> TypeDecoder | None:
    """Returns a decoder of the type that never fails; None if its values stay text."""
    if types == "raw":
        return None
    own = types.get(oid) if types is not None else None
    if own is not None:
        return _or_text(own)
    scalar = _SCALARS.get(oid)
    if scalar is not None:
        return _or_text(scalar)
    for kinds, parse in ((_RANGES, parse_range), (_MULTIRANGES, parse_multirange)):
        if oid in kinds:
            return _or_text(partial(parse, decode=decoder_of(kinds[oid], types) or _as_text))
    if oid in _ARRAYS:
        element = _ARRAYS[oid]
        return _or_text(partial(decode_array, decode=decoder_of(element, types) or _as_text))
    return None


def decode_value(text: str | None, oid: int, types: TypeDecoders | None = None) -> Any:
    """Decodes one value by type OID, as in ``rows`` of a result. Text that does not fit stays text.

    Args:
        text: Text from the database; None stays None.
        oid: OID of the type, as in ``fields`` of a result.
        types: Decoders that replace the built-in ones.
    """
    return _decoded(text, decoder_of(oid, types))


class RowDecoder:
    """Decodes rows. Makes the decoder of each type once."""

    __slots__ = ("_decoders", "_types")

    def __init__(self, types: TypeDecoders | None = None) -> None:
        self._types = types
        self._decoders: dict[int, TypeDecoder | None] = {}

    def decoder(self, oid: int) -> TypeDecoder | None:
        try:
            return self._decoders[oid]
        except KeyError:
            if len(self._decoders) >= _KNOWN_TYPES_MAX:
                self._decoders.clear()
            decode = self._decoders[oid] = decoder_of(oid, self._types)
            return decode

    def rows(
        self, names: Sequence[str], oids: Sequence[int], rows: Sequence[Sequence[str | None]]
    ) -> list[dict[str, Any]]:
        """Decodes rows by column name. If columns share a name, the last one wins."""
        columns = [(at, name, self.decoder(oid)) for at, (name, oid) in enumerate(zip(names, oids, strict=True))]
        return [{name: _decoded(row[at], decode) for at, name, decode in columns} for row in rows]


def _decoded(text: str | None, decode: TypeDecoder | None) -> Any:
    return text if text is None or decode is None else decode(text)
