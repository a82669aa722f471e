"""Where a client finds its service, what it says if there is none, and bodies in place of statements."""

from __future__ import annotations

from typing import Any

import pytest

from highwater import (
    AsyncHighwater,
    DurabilityTimeoutError,
    Endpoint,
    Highwater,
    InvalidRequestError,
    NoAnswerError,
    _transport,
    sql,
)
from tests.client.fake_service import problem
from tests.client.support import E1, marks, refusing
from tests.client.test_durability import at
from tests.client.world import World, start

STATEMENT = sql("SELECT 1")


async def test_the_variables_of_the_environment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    near = await world.service(transaction=lambda *_: problem("primary_unavailable"))
    far = await world.service()
    monkeypatch.setenv("HIGHWATER_URL", f"{near.url}, {far.url}/")
    monkeypatch.setenv("HIGHWATER_API_KEY", "hwk_of_the_environment")
    await world.client(url=None).transaction(STATEMENT)
    for fake in (near, far):
        assert [each["authorization"] for each in fake.headers] == ["Bearer hwk_of_the_environment"]


async def test_options_come_before_the_variables(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = await world.service()
    monkeypatch.setenv("HIGHWATER_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("HIGHWATER_API_KEY", "hwk_of_the_environment")
    own: list[dict[str, Any]] = [{"url": fake.url}, {"endpoints": [Endpoint(fake.url, fake.url)]}]
    for options in own:
        await world.client(api_key="hwk_own", **options).transaction(STATEMENT)
    assert [each["authorization"] for each in fake.headers] == ["Bearer hwk_own"] * 2


@pytest.mark.parametrize("kind", [Highwater, AsyncHighwater])
def test_a_client_without_an_address_says_what_to_set(kind: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIGHWATER_URL", raising=False)
    with pytest.raises(InvalidRequestError, match="HIGHWATER_URL"):
        kind()


@pytest.mark.parametrize("kind", [Highwater, AsyncHighwater])
@pytest.mark.parametrize("url", ["postgresql://app@127.0.0.1:4604/app", "here", "localhost:4600"])
def test_an_address_that_is_not_an_http_url_is_refused_with_its_text(
    kind: type[Any], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = Endpoint("http://127.0.0.1:4600", url)
    for options in ({"url": url}, {"url": ["http://127.0.0.1:4600", url]}, {"endpoints": [endpoint]}):
        with pytest.raises(InvalidRequestError, match=f"not an http or https URL: {url}$") as caught:
            kind(**options)
        assert caught.value.code == "invalid_options"
    monkeypatch.setenv("HIGHWATER_URL", url)
    with pytest.raises(InvalidRequestError, match=url):
        kind()


async def test_an_address_without_a_service_is_logged_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    _transport._told.clear()
    with refusing() as nobody:
        hw = world.client(url=nobody, total_timeout=1)
        for _ in range(2):
            with pytest.raises(NoAnswerError) as caught:
                await hw.transaction(STATEMENT)
            assert (caught.value.code, caught.value.outcome) == ("connection_failed", "not_applied")
    [logged] = [each.getMessage() for each in caplog.records]
    assert logged.startswith(f"{nobody}/v1/transactions cannot be reached")


async def test_a_wait_for_several_that_is_over_has_a_token_of_one_that_is_pending(world: World) -> None:
    fake = await world.service(transaction=at(10, 20))
    hw = world.client(fake)
    session = hw.session()
    await session.transaction(STATEMENT)
    second = await session.transaction(STATEMENT)
    waiting, _ = start(world, session.durable, timeout=1)
    await fake.streaming()
    fake.mark(marks(E1, region=10))
    with pytest.raises(DurabilityTimeoutError) as caught:
        await waiting
    assert (caught.value.token, caught.value.state) == (second.token, "pending")


async def test_a_body_in_place_of_statements(world: World) -> None:
    fake = await world.service()
    hw = world.client(fake)
    for origin in (hw, hw.session()):
        if world.is_async:

            async def body(tx: Any) -> int:
                return len((await tx.query(STATEMENT)).rows)

            assert await origin.transaction(body) == 1
        else:
            assert await origin.transaction(lambda tx: len(tx.query(STATEMENT).rows)) == 1
    assert [each.name for each in fake.calls] == ["begin", "commit"] * 2
