"""Prints what a client sees as a line of JSON for each case; a failure is a result as well."""

import json
from collections.abc import Awaitable, Callable
from typing import Any


def plain(value: Any) -> Any:
    """What JSON has no form for is shown as Python shows it."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def show(name: str, result: Any) -> None:
    print(json.dumps({"case": name, "result": plain(result)}), flush=True)


def see(name: str, call: Callable[[], Any], fields: Callable[[Exception], Any]) -> None:
    try:
        result = call()
    except Exception as error:
        result = {"error": type(error).__name__, "fields": fields(error)}
    show(name, result)


async def see_async(name: str, call: Callable[[], Awaitable[Any]], fields: Callable[[Exception], Any]) -> None:
    try:
        result = await call()
    except Exception as error:
        result = {"error": type(error).__name__, "fields": fields(error)}
    show(name, result)
