"""Prints a client's result of each case as a line of JSON. A failure is a result, too."""

import json
from collections.abc import Awaitable, Callable
from typing import Any


def plain(value: Any) -> Any:
    """Values that JSON cannot express are shown as Python prints them."""
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
