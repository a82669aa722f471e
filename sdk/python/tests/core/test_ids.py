import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater._core.errors import InvalidRequestError
from highwater._core.ids import check_transaction_id, decode_token, new_transaction_id, uuid7_of
from tests.client.support import token


def test_new_ids_are_uuid7_of_now() -> None:
    before = time.time_ns() // 1_000_000
    each = uuid.UUID(new_transaction_id())
    assert (each.version, each.variant) == (7, uuid.RFC_4122)
    assert before <= each.int >> 80 <= time.time_ns() // 1_000_000
    assert new_transaction_id() != new_transaction_id()


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_property_every_made_id_is_a_valid_one_of_its_time(wall_ms: int, random: bytes) -> None:
    text = uuid7_of(wall_ms, random)
    assert check_transaction_id(text) == text
    assert uuid.UUID(text).int >> 80 == wall_ms


def test_ids_are_checked_and_made_lower_case() -> None:
    new = new_transaction_id()
    assert check_transaction_id(new.upper()) == new
    assert check_transaction_id(uuid.UUID(new)) == new
    for wrong in ("00000000-0000-4000-8000-000000000000", "", f"{new}\n", new.replace("-", "")):
        with pytest.raises(InvalidRequestError) as caught:
            check_transaction_id(wrong)
        assert caught.value.code == "invalid_id"


@given(st.uuids(), st.uuids(), st.integers(0, 10**64 - 1))
def test_property_a_token_gives_its_id_and_position(id: uuid.UUID, epoch: uuid.UUID, offset: int) -> None:
    content = decode_token(token(str(epoch), offset, str(id)))
    assert (content.id, content.position.epoch, content.position.offset) == (str(id), str(epoch), offset)


@given(st.integers(0, 10**64 - 1), st.sampled_from("= \n"))
def test_property_a_token_has_one_spelling(offset: int, tail: str) -> None:
    right = token("00000000-0000-4000-8000-000000000001", offset)
    for wrong in (right + tail, right.replace("hw2_", "hw1_"), right[:40]):
        with pytest.raises(InvalidRequestError) as caught:
            decode_token(wrong)
        assert caught.value.code == "invalid_token"
