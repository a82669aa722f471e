"""Converts the text of PostgreSQL arrays of any depth to nested lists."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


_TOKEN: Final = re.compile(r'[{},]|"((?:[^"\\]|\\.)*)"|((?:[^{}"\\,]|\\.)+)', re.DOTALL)


def _as_text(text: str) -> str:
    return text


def decode_array(text: str, decode: Callable[[str], object] = _as_text) -> list[Any]:
    """Converts the text of an array to nested lists.

    Lists cannot express bounds that do not begin at 1 (``[0:2]={1,2,3}``); the text of the result
    has them.

    Args:
        text: Text as PostgreSQL writes it: ``{1,NULL,"a b"}``.
        decode: Decoder for elements that are not NULL. Default: they stay text.

    Errors: ``ValueError`` if the text is not an array.
    """
    at = text.find("{")
    if at < 0 or (at > 0 and text[at - 1] != "="):
        raise ValueError(f"not an array: {text!r}")
    outer: list[Any] = []
    stack: list[list[Any]] = [outer]
    end = len(text)
    while at < end:
        token = _TOKEN.match(text, at)
        if token is None or (len(stack) == 1 and outer):
            raise ValueError(f"not an array: {text!r}")
        at = token.end()
        quoted, plain = token[1], token[2]
        if quoted is not None:
            stack[-1].append(decode(_ESCAPED.sub(r"\1", quoted) if "\\" in quoted else quoted))
        elif plain is not None:
            unescaped = _ESCAPED.sub(r"\1", plain) if "\\" in plain else plain
            stack[-1].append(None if plain == "NULL" else decode(unescaped))
        elif token[0] == "{":
            inner: list[Any] = []
            stack[-1].append(inner)
            stack.append(inner)
        elif token[0] == "}":
            stack.pop()
            if not stack:
                raise ValueError(f"not an array: {text!r}")
    if len(stack) != 1 or not outer:
        raise ValueError(f"not an array: {text!r}")
    array: list[Any] = outer[0]
    return array
