"""Parses server-sent events from bytes in chunks of any size. No sockets. Owns only the framing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

EVENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Maximum size of an event. A larger one means that the other side is not a tracker."""

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SseEvent:
    type: str
    data: str
    last_event_id: str
    """Last id seen on the stream so far, including this event's."""


class SseParser:
    __slots__ = ("_after_cr", "_data", "_data_bytes", "_is_first", "_last_event_id", "_line", "_type")

    def __init__(self, last_event_id: str = "") -> None:
        self._last_event_id = last_event_id
        self._line = bytearray()
        self._after_cr = False
        self._is_first = True
        self._type = ""
        self._data: list[str] = []
        self._data_bytes = 0

    def push(self, data: bytes) -> list[SseEvent]:
        """Returns the events that these bytes complete.

        Raises ValueError if an event is too long.
        """
        events: list[SseEvent] = []
        if not data:
            return events
        # Lines end with CR, LF or CRLF. A CRLF may be split between chunks: its LF then ends
        # nothing.
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
            self._after_cr = False
            if not data:
                return events
        self._after_cr = data.endswith(b"\r")
        *lines, rest = _LINE_END.split(data)
        for part in lines:
            line = part
            if self._line:
                self._line += part
                line = bytes(self._line)
                self._line.clear()
            event = self._take_line(line)
            if event is not None:
                events.append(event)
        self._line += rest
        if len(self._line) + self._data_bytes > EVENT_BYTES_MAX:
            raise ValueError("the event is too long")
        return events

    def _take_line(self, line: bytes) -> SseEvent | None:
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value.decode("utf-8", "replace"))
            self._data_bytes += len(value) + 1
        elif name == b"event":
            self._type = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._last_event_id = value.decode("utf-8", "replace")
        # Comments (an empty field name), `retry` and unknown fields do not matter to this client.
        return None

    def _dispatch(self) -> SseEvent | None:
        data, kind = self._data, self._type
        self._data = []
        self._data_bytes = 0
        self._type = ""
        if not data:
            return None
        return SseEvent(kind or "message", "\n".join(data), self._last_event_id)
