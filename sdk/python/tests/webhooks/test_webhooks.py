"""The verification of webhooks, against signatures of the library that the standard's authors publish."""

import json
import pickle
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from highwater.webhooks import VerifiedWebhook, WebhookEvent, WebhookVerificationError, verify

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_c2VjcmV0IG9mIHNvbWVib2R5IGVsc2UgYXRhbGw="
EVENT = {"type": "transaction.lost", "timestamp": "2026-01-01T00:00:00Z", "data": {"id": "x", "text": "größer"}}
BODY = json.dumps(EVENT, ensure_ascii=False)
AT = datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)
EXPECTED = VerifiedWebhook("msg_1", WebhookEvent("transaction.lost", "2026-01-01T00:00:00Z", EVENT["data"]))  # type: ignore[arg-type]


def signed(by: str = SECRET, body: str = BODY) -> dict[str, str]:
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(AT.timestamp())),
        "webhook-signature": Webhook(by).sign("msg_1", AT, body),
    }


def now() -> float:
    return AT.timestamp() + 1


@pytest.mark.parametrize("body", [BODY, BODY.encode()])
def test_what_the_library_signs_is_verified(body: bytes | str) -> None:
    assert verify(body, signed(), SECRET, now=now) == EXPECTED
    upper = {name.upper(): value for name, value in signed().items()}
    assert verify(body, upper, SECRET, now=now) == EXPECTED


def test_the_time_is_compared_with_the_clock_by_default() -> None:
    with pytest.raises(WebhookVerificationError, match="too old") as caught:
        verify(BODY, signed(), SECRET)
    assert caught.value.code == "stale_timestamp"
    assert verify(BODY, signed(), SECRET, tolerance=1e12) == EXPECTED


def test_of_several_signatures_and_secrets_one_that_fits_is_enough() -> None:
    assert verify(BODY, signed(), [OTHER, SECRET], now=now) == EXPECTED
    both = f"v1a,{'A' * 88} v1,@@@ {signed(OTHER)['webhook-signature']} {signed()['webhook-signature']}"
    assert verify(BODY, signed() | {"webhook-signature": both}, SECRET, now=now) == EXPECTED


@pytest.mark.parametrize(
    ("code", "body", "headers", "secret", "later"),
    [
        ("no_matching_signature", BODY.replace("lost", "durable"), {}, SECRET, 0),
        ("no_matching_signature", BODY, {"webhook-id": "msg_2"}, SECRET, 0),
        ("no_matching_signature", BODY, {"webhook-timestamp": str(int(AT.timestamp()) + 1)}, SECRET, 0),
        ("no_matching_signature", BODY, {}, OTHER, 0),
        ("no_matching_signature", BODY, {}, [], 0),
        ("no_matching_signature", BODY, {"webhook-signature": "v1,"}, SECRET, 0),
        ("missing_headers", BODY, {"webhook-id": ""}, SECRET, 0),
        ("missing_headers", BODY, {"webhook-signature": ""}, SECRET, 0),
        ("missing_headers", BODY, {"webhook-timestamp": "now"}, SECRET, 0),
        ("missing_headers", BODY, {"webhook-timestamp": "٣"}, SECRET, 0),
        ("stale_timestamp", BODY, {}, SECRET, 301),
        ("stale_timestamp", BODY, {}, SECRET, -302),
        ("invalid_secret", BODY, {}, "whsec_", 0),
        ("invalid_secret", BODY, {}, "whsec_***", 0),
    ],
)
def test_anything_changed_missing_or_old_is_refused(
    code: str, body: str, headers: dict[str, str], secret: str | list[str], later: float
) -> None:
    with pytest.raises(WebhookVerificationError) as caught:
        verify(body, signed() | headers, secret, now=lambda: now() + later)
    assert caught.value.code == code


@pytest.mark.parametrize("body", ["no json", "[]", '{"type": "x"}', "[" * 100_000])
def test_a_signed_body_that_is_no_event_is_refused(body: str) -> None:
    with pytest.raises(WebhookVerificationError) as caught:
        verify(body, signed(body=body), SECRET, now=now)
    assert caught.value.code == "invalid_body"
    assert pickle.loads(pickle.dumps(caught.value)).code == "invalid_body"
