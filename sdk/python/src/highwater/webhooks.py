"""Verifies webhooks of Highwater: Standard Webhooks 1.0, signed with HMAC-SHA256.

Needs only the standard library.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["VerifiedWebhook", "WebhookEvent", "WebhookVerificationError", "verify"]

_TIMESTAMP: Final = re.compile(r"\d{1,15}", re.ASCII)


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """The event that a webhook reports."""

    type: str
    """``transaction.lost``, ``transaction.durable``, ``durability.stalled``, …

    A newer service may send other types.
    """
    timestamp: str
    """Time of the event, as RFC 3339."""
    data: Mapping[str, Any]
    """Details, which depend on ``type``. The reference of webhooks lists them."""


@dataclass(frozen=True, slots=True)
class VerifiedWebhook:
    """A webhook that is signed with the secret and recent."""

    id: str
    """Id of the event, the same in every delivery. Handle each id once."""
    event: WebhookEvent
    """The parsed body."""


class WebhookVerificationError(Exception):
    """The webhook cannot be trusted."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        """``missing_headers``, ``stale_timestamp``, ``no_matching_signature``, ``invalid_secret``
        or ``invalid_body``.
        """

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.code, str(self)))


def verify(
    body: bytes | str,
    headers: Mapping[str, str],
    secret: str | Sequence[str],
    *,
    tolerance: float = 300.0,
    now: Callable[[], float] = time.time,
) -> VerifiedWebhook:
    """Returns the event of a webhook if it is signed with one of the secrets and recent.

    Args:
        body: Body of the request, byte for byte as received. Never parse and serialize it first.
        headers: Headers of the request, with names in any case.
        secret: Secret ``whsec_…``. Pass two while one replaces the other.
        tolerance: Maximum difference between the webhook's time and now, in seconds. An older
            webhook may be a replay.
        now: Function that returns seconds since 1970; for tests.

    Errors: ``WebhookVerificationError``: answer 400 and do nothing that the webhook says.

    Example:
        def receive(body: bytes, headers: Mapping[str, str]) -> int:
            try:
                webhook = verify(body, headers, ["whsec_bmV3", "whsec_b2xk"])
            except WebhookVerificationError:
                return 400
            print(webhook.id, webhook.event.type, webhook.event.data)
            return 204
    """
    own = {name.lower(): value for name, value in headers.items()}
    identifier, at, signatures = (own.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not identifier or not signatures or _TIMESTAMP.fullmatch(at) is None:
        raise WebhookVerificationError("missing_headers", "a webhook header is missing or malformed")
    if abs(now() - int(at)) > tolerance:
        raise WebhookVerificationError(
            "stale_timestamp", f"the webhook is too old or in the future: more than {tolerance:g} s from now"
        )
    content = body.encode() if isinstance(body, str) else bytes(body)
    secrets = [secret] if isinstance(secret, str) else secret
    if not _is_signed(f"{identifier}.{at}.".encode() + content, signatures, secrets):
        raise WebhookVerificationError("no_matching_signature", "the webhook is not signed with any of the secrets")
    return VerifiedWebhook(identifier, _event_of(content))


def _is_signed(content: bytes, signatures: str, secrets: Sequence[str]) -> bool:
    candidates = [_from_base64(each[3:]) for each in signatures.split(" ") if each.startswith("v1,")]
    for secret in secrets:
        key = _from_base64(secret.removeprefix("whsec_"))
        if not key:
            raise WebhookVerificationError("invalid_secret", "a webhook secret must be base64 after the prefix whsec_")
        expected = hmac.digest(key, content, hashlib.sha256)
        if any(each is not None and hmac.compare_digest(each, expected) for each in candidates):
            return True
    return False


def _event_of(content: bytes) -> WebhookEvent:
    try:
        event = json.loads(content)
        return WebhookEvent(str(event["type"]), str(event["timestamp"]), dict(event["data"]))
    except (ValueError, TypeError, KeyError, RecursionError) as cause:
        raise WebhookVerificationError("invalid_body", "the webhook body is not an event") from cause


def _from_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
