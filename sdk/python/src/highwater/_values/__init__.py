"""Converts PostgreSQL's text to Python values.

Owns the types that Python does not have: `Interval`, `Range` and `Multirange`. `_core.params`
converts the other way.
"""

from .arrays import decode_array
from .decode import TypeDecoder, TypeDecoders, decode_value
from .interval import Interval
from .ranges import Multirange, Range
from .result import ResultDecoder, Row, StatementResult, result_decoder

__all__ = [
    "Interval",
    "Multirange",
    "Range",
    "ResultDecoder",
    "Row",
    "StatementResult",
    "TypeDecoder",
    "TypeDecoders",
    "decode_array",
    "decode_value",
    "result_decoder",
]
