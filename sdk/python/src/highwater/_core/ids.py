"""Transaction ids and tokens in text and binary form. ``pending_set`` interprets tokens."""

from __future__ import annotations

import base64
import binascii
import os
import re
import sys
import time
import uuid
from dataclasses import dataclass
from typing import Final

from .errors import usage_error
from .wire import Position

_UUID_V7: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z", re.IGNORECASE | re.ASCII
)
_BASE64_URL: Final = re.compile(r"[A-Za-z0-9_-]*\Z", re.ASCII)
_PREFIX: Final = "hw2_"
_TOKEN_CHARS_MAX: Final = 167
_OTHER_ATTEMPT: Final = 2
_POSITION_ONLY: Final = 4  # Stands alone, so it is the highest value of the flags.
_ID_AT: Final = 2
_EPOCH_AT: Final = 18
_PARENT_AT: Final = 34
_ATTEMPT_AT: Final = 66
_UUID_BYTES: Final = 16
_MAC_BYTES: Final = 16
_OFFSET_BYTES_MAX: Final = 27
_OFFSET_LIMIT: Final = 10**64


def new_transaction_id() -> str:
    """Makes a new transaction id: a UUIDv7 of the wall clock and 74 random bits.

    Pass it as the option ``id`` if you want to store the id before the transaction runs. The
    service refuses an id whose time is long past.
    """
    return uuid7_of(time.time_ns() // 1_000_000, os.urandom(10))


def uuid7_of(wall_ms: int, random: bytes) -> str:
    """Makes the UUIDv7 of a time and ten random bytes."""
    value = int.from_bytes(wall_ms.to_bytes(6, "big") + random, "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return _uuid_text(value.to_bytes(16, "big"))


def check_transaction_id(value: str | uuid.UUID) -> str:
    """Returns the id in canonical lower case. Errors: ``invalid_id`` if it is not a UUIDv7."""
    text = str(value)
    if not _UUID_V7.match(text):
        raise usage_error("invalid_id", f"not a UUIDv7: {text}")
    return text.lower()


def _uuid_text(data: bytes) -> str:
    text = data.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


@dataclass(frozen=True, slots=True)
class TokenContent:
    id: str
    position: Position


def decode_token(token: str) -> TokenContent:
    """Returns the id and the position that a token carries.

    The service reads more from it and checks its signature; a client needs no more. Errors:
    ``invalid_token``, also for other spellings of a token, which base64 and leading zeros would
    allow.
    """
    content = None
    if token.startswith(_PREFIX):
        data = _from_base64_url(token[len(_PREFIX) :])
        content = None if data is None else _parse_token(data)
    if content is None:
        raise usage_error("invalid_token", "not a token of this service; pass the token of a transaction")
    return content


def _parse_token(data: bytes) -> TokenContent | None:
    # Flags, key number, id, epoch, its parent, owner, another epoch if one is named, offset, MAC.
    flags = data[0] if data else 0xFF
    if flags > _POSITION_ONLY:
        return None
    other = flags & _OTHER_ATTEMPT != 0
    offset_at = _ATTEMPT_AT + (_UUID_BYTES if other else 0)
    offset = data[offset_at:-_MAC_BYTES]
    if len(data) < offset_at + _MAC_BYTES or not 1 <= len(offset) <= _OFFSET_BYTES_MAX:
        return None
    if len(offset) > 1 and offset[0] == 0:
        return None
    epoch = data[_EPOCH_AT:_PARENT_AT]
    if other and data[_ATTEMPT_AT:offset_at] == epoch:
        return None
    value = int.from_bytes(offset, "big")
    if value >= _OFFSET_LIMIT:
        return None
    return TokenContent(_uuid_text(data[_ID_AT:_EPOCH_AT]), Position(sys.intern(_uuid_text(epoch)), value))


def _from_base64_url(text: str) -> bytes | None:
    if len(text) > _TOKEN_CHARS_MAX or not _BASE64_URL.match(text):
        return None
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        return None
    return data if base64.urlsafe_b64encode(data).rstrip(b"=").decode() == text else None
