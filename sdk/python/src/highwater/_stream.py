"""The client's event stream: opened when a call waits, closed a while after the last wait.

In between it survives disconnects, silence and dead endpoints. If no stream comes through, for
example behind a proxy that buffers answers, the client polls for marks instead. Owns the connection
and lives on its host's loop; `_watcher` interprets the events.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass

from ._background import LOG, Host
from ._core.effects import NoResponse, Send
from ._core.endpoints import EndpointPool
from ._core.errors import HighwaterError, answer_error, no_tracker
from ._core.observer import EventType, ObservedEvent, Observer, notify
from ._core.reading import read_blind_event, read_epoch_event, read_marks, read_marks_response, read_stall_event
from ._core.retry import full_jitter
from ._core.runtime import Runtime
from ._core.service import parsed
from ._core.sse import SseEvent, SseParser
from ._core.tuning import Tuning
from ._core.wire import EpochRecord, Marks
from ._transport import StreamError, StreamSilentError

STREAM_PATH = "/v1/durability/stream"
MARKS_PATH = "/v1/durability/marks"


@dataclass(frozen=True, slots=True)
class StreamDeps:
    host: Host
    trackers: EndpointPool
    tuning: Tuning
    headers: Mapping[str, str]
    runtime: Runtime
    observer: Observer | None
    on_marks: Callable[[Marks], None]
    on_epochs: Callable[[Sequence[EpochRecord]], None]
    #: No address serves marks to this caller. Every wait ends with the error.
    on_refused: Callable[[HighwaterError], None]


class _NoStreamError(Exception):
    """The answer is not a stream."""


class DurabilityStream:
    def __init__(self, deps: StreamDeps) -> None:
        self._deps = deps
        self._running: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._last_event_id = ""
        self._failures = 0
        #: The connection has delivered an event.
        self._has_spoken = False
        #: The last tracker that spoke is blind, and the client looks for one that sees.
        self._has_left_blind = False

    def open(self) -> None:
        """Connects, or stays connected, because a call waits."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._running is None or self._running.done():
            self._running = self._deps.host.start(self._run())

    def release(self) -> None:
        """Closes after a while, because no call waits; a new wait before that keeps it open."""
        if self._running is None or self._idle is not None:
            return
        loop = asyncio.get_running_loop()
        self._idle = loop.call_later(self._deps.tuning.stream_idle_ms / 1_000, self._stop)

    def _stop(self) -> None:
        running, self._running = self._running, None
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if running is not None:
            running.cancel()

    async def close(self) -> None:
        running = self._running
        self._stop()
        if running is not None:
            await asyncio.wait({running})

    async def _run(self) -> None:
        trackers, tuning = self._deps.trackers, self._deps.tuning
        while True:
            url = trackers.pick(self._deps.runtime.monotonic_ms())
            self._failures += 1
            try:
                await self._connect(url)
                self._notify("stream_closed", url)
            except asyncio.CancelledError:
                self._notify("stream_closed", url)
                raise
            except (StreamError, TimeoutError, ValueError, _NoStreamError) as error:
                self._notify("stream_closed", url, error)
                # A connection that delivered events does come through: if it broke, only connect
                # again.
                if not self._has_spoken or isinstance(error, StreamSilentError):
                    # The tracker may be fine, and only streams do not come through.
                    refusal = None if self._has_left_blind else await self._poll(url)
                    if refusal is True:
                        continue
                    trackers.failed(url, self._deps.runtime.monotonic_ms())
                    if self._failures <= trackers.size and trackers.has_awake(self._deps.runtime.monotonic_ms()):
                        continue
                    self._has_left_blind = False
                    if isinstance(refusal, HighwaterError) and refusal.retry == "never":
                        self._deps.on_refused(no_tracker(url, refusal))
            chance = self._deps.runtime.random()
            delay_ms = full_jitter(
                self._failures, base_ms=tuning.backoff_base_ms, max_ms=tuning.backoff_max_ms, random=chance
            )
            await asyncio.sleep(delay_ms / 1_000)

    async def _connect(self, url: str) -> None:
        """Reads one connection to its end.

        Raises if it cannot be opened, breaks or falls silent.
        """
        tuning, headers = self._deps.tuning, dict(self._deps.headers)
        headers["accept"] = "text/event-stream"
        if self._last_event_id:
            headers["last-event-id"] = self._last_event_id
        silence = tuning.stream_silence_ms / 1_000
        self._has_spoken = False
        # The first bytes must arrive soon; afterwards only silence ends the stream.
        open_ms = tuning.stream_open_after_blind_ms if self._has_left_blind else tuning.stream_open_ms
        async with asyncio.timeout(open_ms / 1_000) as opening:
            transport = self._deps.host.transport()
            async with transport.stream(f"{url}{STREAM_PATH}", headers, silence=silence) as (status, kind, body):
                if status != 200 or not kind.startswith("text/event-stream"):
                    raise _NoStreamError(f"status {status} of type {kind or 'none'}")
                self._notify("stream_open", url)
                await self._read(url, body, opening)

    async def _read(self, url: str, body: AsyncIterator[bytes], opening: asyncio.Timeout) -> None:
        parser = SseParser(self._last_event_id)
        trackers, monotonic_ms = self._deps.trackers, self._deps.runtime.monotonic_ms
        is_blind = False
        async for chunk in body:
            opening.reschedule(None)
            for event in parser.push(chunk):
                self._has_spoken = True
                self._failures = 0
                self._last_event_id = event.last_event_id
                if event.type == "blind":
                    is_blind = self._take_blind(event, is_blind)
                    if is_blind:
                        trackers.failed(url, monotonic_ms())
                self._has_left_blind = is_blind
                if not is_blind:
                    trackers.succeeded(url)
                self._take(event)
            # This tracker gets nothing new from the primary; another one may.
            if is_blind and trackers.has_awake(monotonic_ms()):
                return

    def _take_blind(self, event: SseEvent, before: bool) -> bool:
        try:
            return read_blind_event(json.loads(event.data))["blind"]
        except ValueError as error:
            LOG.debug("stream event %s cannot be read: %s", event.type, error)
            return before

    async def _poll(self, url: str) -> bool | HighwaterError:
        """Polls for marks for a while, less often while they do not rise.

        Returns False if even the first request got no answer, and the error if it was refused.
        """
        trackers, tuning = self._deps.trackers, self._deps.tuning
        until_ms = self._deps.runtime.monotonic_ms() + tuning.poll_for_ms
        newest: Marks | None = None
        same = polls = 0
        while polls == 0 or self._deps.runtime.monotonic_ms() < until_ms:
            question = Send("GET", f"{url}{MARKS_PATH}", self._deps.headers, None, tuning.stream_open_ms / 1_000)
            answer = await self._deps.host.transport().send(question)
            if isinstance(answer, NoResponse):
                return polls > 0
            if answer.status != 200:
                return polls > 0 or answer_error(answer.status, parsed(answer.body))
            try:
                body = read_marks_response(json.loads(answer.body))
            except ValueError:
                return polls > 0
            if polls == 0:
                self._notify("polling", url)
            polls += 1
            self._failures = 0
            if body.epochs:
                self._deps.on_epochs(body.epochs)
            if body.marks is not None:
                self._deps.on_marks(body.marks)
            if body.blind:
                trackers.failed(url, self._deps.runtime.monotonic_ms())
                if trackers.has_awake(self._deps.runtime.monotonic_ms()):
                    return True
            same = same + 1 if body.marks == newest else 0
            newest = body.marks
            delay_ms = min(tuning.poll_max_ms, tuning.poll_base_ms * 2 ** min(same, 20))
            await asyncio.sleep(delay_ms * (0.75 + self._deps.runtime.random() / 2) / 1_000)
        return True

    def _take(self, event: SseEvent) -> None:
        try:
            body = json.loads(event.data)
            if event.type == "mark":
                self._deps.on_marks(read_marks(body))
            elif event.type == "epoch":
                self._deps.on_epochs(read_epoch_event(body).epochs)
            elif event.type in ("stalled", "recovered"):
                stall = read_stall_event(body)
                kind: EventType = "stalled" if event.type == "stalled" else "recovered"
                notify(self._deps.observer, ObservedEvent(type=kind, level=stall["level"]))
            elif event.type != "blind":
                # An event of a newer service, without a meaning for this client.
                LOG.debug("stream event %s ignored", event.type)
        except ValueError as error:
            LOG.debug("stream event %s cannot be read: %s", event.type, error)

    def _notify(self, kind: EventType, url: str, error: Exception | None = None) -> None:
        notify(self._deps.observer, ObservedEvent(type=kind, url=url, error=error))
