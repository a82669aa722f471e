"""The framing is found whatever the network does to it: one byte sequence, cut at every place."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater._core.sse import EVENT_BYTES_MAX, SseEvent, SseParser

LINE = st.text(st.sampled_from("aä𝄞 :{0\u2028\x0b"), max_size=6)


class Message(NamedTuple):
    type: str
    id: str
    data: list[str]
    ending: str


MESSAGES = st.lists(
    st.builds(Message, LINE, LINE, st.lists(LINE, min_size=1, max_size=3), st.sampled_from(("\n", "\r\n", "\r"))),
    max_size=4,
)


def encode(messages: Sequence[Message]) -> bytes:
    text = ""
    for type_, id_, data, ending in messages:
        lines = [": comment", f"event: {type_}", f"id: {id_}", *(f"data: {each}" for each in data), "retry: 5", "", ""]
        text += ending.join(lines)
    return f"\ufeff{text}".encode()


def parse(chunks: Sequence[bytes]) -> list[SseEvent]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.push(chunk)]


@given(MESSAGES, st.lists(st.integers(0, 400), max_size=12))
def test_property_every_message_is_found_at_any_chunking(messages: list[Message], cuts: list[int]) -> None:
    whole = encode(messages)
    places = [0, *sorted(cut % (len(whole) + 1) for cut in cuts), len(whole)]
    chunks = [whole[start:end] for start, end in itertools.pairwise(places)]
    assert parse(chunks) == [
        SseEvent(message.type or "message", "\n".join(message.data), message.id) for message in messages
    ]


@pytest.mark.parametrize("chunk", [b"a" * 1_048_576, b"data: " + b"a" * 1_048_576 + b"\n"])
def test_an_endless_event_is_refused(chunk: bytes) -> None:
    parser = SseParser()
    with pytest.raises(ValueError, match="too long"):  # noqa: PT012 - it is the last of many
        for _ in range(EVENT_BYTES_MAX // len(chunk) + 2):
            parser.push(chunk)
