"""What URLs and options of engines mean. No service is asked."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import exc, pool
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import create_async_engine as create_async_engine_of_url

import highwater.sqlalchemy
from highwater import AsyncHighwater, Endpoint, Highwater
from highwater.sqlalchemy._url import options_of


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("highwater://", {}),
        ("highwater://db.example", {"endpoints": [Endpoint("https://db.example", "https://db.example")]}),
        (
            "highwater://:k%2Fy@db.example:4600/?tracker=db.example:4700&tls=false",
            {"endpoints": [Endpoint("http://db.example:4600", "http://db.example:4700")], "api_key": "k/y"},
        ),
        (
            "highwater://[::1]:4600/?host=https://other.example&tls=off",
            {
                "endpoints": [
                    Endpoint("http://[::1]:4600", "http://[::1]:4600"),
                    Endpoint("https://other.example", "https://other.example"),
                ]
            },
        ),
        (
            "highwater://a/?level=zone&total_timeout=2.5&share_requests=false&ack=durable&timeout=5",
            {
                "endpoints": [Endpoint("https://a", "https://a")],
                "level": "zone",
                "total_timeout": 2.5,
                "share_requests": False,
                "transaction": {"ack": "durable", "timeout": 5.0},
            },
        ),
        (
            "highwater://a/?max_wait=2.5&on_timeout=pending&max_attempts=3&max_delay=60",
            {
                "endpoints": [Endpoint("https://a", "https://a")],
                "transaction": {"max_wait": 2.5, "on_timeout": "pending", "max_attempts": 3, "max_delay": 60.0},
            },
        ),
    ],
)
def test_what_a_url_says(url: str, expected: dict[str, Any]) -> None:
    assert options_of(make_url(url)) == expected


@pytest.mark.parametrize(
    "url",
    [
        "highwater://a/database",
        "highwater://a/?tracker=b&tracker=c",
        "highwater://a/?colour=red",
        "highwater://a/?tls=perhaps",
        "highwater://a/?total_timeout=soon",
        "highwater://a/?level=zone&level=region",
    ],
)
def test_what_a_url_must_not_say(url: str) -> None:
    with pytest.raises(exc.ArgumentError):
        options_of(make_url(url))


def test_an_engine_needs_a_service_or_the_right_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIGHWATER_URL", raising=False)
    nowhere = sqlalchemy.create_engine("highwater://")
    with pytest.raises(exc.ArgumentError, match="no service"):
        nowhere.connect()
    with Highwater("http://127.0.0.1:9") as hw:
        both = highwater.sqlalchemy.create_engine(hw, connect_args={"level": "zone"})
        with pytest.raises(exc.ArgumentError, match="either"):
            both.connect()
        wrong = sqlalchemy.create_engine("highwater+async://", connect_args={"client": hw})
        with pytest.raises(exc.ArgumentError, match="AsyncHighwater"):
            wrong.connect()


async def test_both_kinds_of_engines_have_their_dialects() -> None:
    assert sqlalchemy.create_engine("highwater://a").dialect.name == "postgresql"
    assert isinstance(sqlalchemy.create_engine("highwater://a").pool, pool.NullPool)
    for url in ("highwater://a", "highwater+async://a"):
        engine = create_async_engine_of_url(url)
        assert engine.dialect.is_async
        await engine.dispose()
    async with AsyncHighwater("http://127.0.0.1:9") as hw:
        assert highwater.sqlalchemy.create_async_engine(hw).dialect.is_async


def test_a_url_without_a_host_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIGHWATER_URL", "http://127.0.0.1:9")
    engine = sqlalchemy.create_engine("highwater://?total_timeout=0.2")
    with pytest.raises(exc.OperationalError, match="no answer"):
        engine.connect()
    engine.dispose()


def test_a_service_that_is_not_there_is_an_operational_error() -> None:
    engine = sqlalchemy.create_engine("highwater://127.0.0.1:9/?tls=false&total_timeout=0.2")
    with pytest.raises(exc.OperationalError) as caught:
        engine.connect()
    cause = caught.value.orig
    assert isinstance(cause, highwater.dbapi.Error)
    assert (cause.outcome, cause.retry) == ("not_applied", "wait")
    engine.dispose()
