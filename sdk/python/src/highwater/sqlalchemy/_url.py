"""Reads the client's options from an engine's URL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

from .._options import Endpoint

_TRUTH: Final = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}


def _truth(text: str) -> bool:
    return _TRUTH[text.lower()]


_OF_CLIENT: Final[dict[str, Callable[[str], Any]]] = {
    "level": str,
    "request_timeout": float,
    "total_timeout": float,
    "share_requests": _truth,
    "debug": _truth,
}
_OF_TRANSACTION: Final[dict[str, Callable[[str], Any]]] = {
    "ack": str,
    "max_wait": float,
    "on_timeout": str,
    "max_attempts": int,
    "max_delay": float,
    "timeout": float,
}


def options_of(url: URL) -> dict[str, Any]:
    """Returns the client's options and, as `transaction`, the settings of its transactions.

    `highwater://:API_KEY@HOST:PORT/?host=HOST:PORT&tracker=HOST:PORT&tls=false&ack=durable`

    Errors: `ArgumentError` for anything without a meaning.
    """
    if url.database:
        raise ArgumentError("the URL must not name a database; the service determines it")
    query = {name: _listed(value) for name, value in url.query.items()}
    scheme = "https" if _one(query.pop("tls", ["true"]), "tls", _truth) else "http"
    hosts = [] if url.host is None else [_authority(url.host, url.port)]
    gateways = [_address(each, scheme) for each in (*hosts, *query.pop("host", []))]
    trackers = [_address(each, scheme) for each in query.pop("tracker", [])]
    options: dict[str, Any] = {}
    if trackers and len(trackers) != len(gateways):
        raise ArgumentError(f"{len(gateways)} gateways but {len(trackers)} trackers; name one per gateway, or none")
    if gateways:
        options["endpoints"] = [Endpoint(*pair) for pair in zip(gateways, trackers or gateways, strict=True)]
    if url.password is not None:
        options["api_key"] = str(url.password)
    settings: dict[str, Any] = {}
    for name, values in query.items():
        if name in _OF_CLIENT:
            options[name] = _one(values, name, _OF_CLIENT[name])
        elif name in _OF_TRANSACTION:
            settings[name] = _one(values, name, _OF_TRANSACTION[name])
        else:
            raise ArgumentError(f"unknown option in the URL: {name}")
    if settings:
        options["transaction"] = settings
    return options


def _listed(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _one(values: list[str], name: str, read: Callable[[str], Any]) -> Any:
    if len(values) != 1:
        raise ArgumentError(f"{name} must appear only once")
    try:
        return read(values[0])
    except (KeyError, ValueError) as error:
        raise ArgumentError(f"{name} has an invalid value: {values[0]!r}") from error


def _authority(host: str, port: int | None) -> str:
    named = f"[{host}]" if ":" in host else host
    return named if port is None else f"{named}:{port}"


def _address(text: str, scheme: str) -> str:
    return text if "://" in text else f"{scheme}://{text}"
