"""Makes the requests that schemathesis invents worth sending.

Valid values become those of a transaction and of endpoints that there are; an invalid one stays as it is. The choice
depends on the invented value alone: a seed gives the same run.
"""

import os
import re
import zlib

import schemathesis

TOKEN = os.environ["HIGHWATER_TOKEN"]
HOOK = os.environ["HIGHWATER_HOOK"]
WEBHOOK = os.environ["HIGHWATER_WEBHOOK"]
DELIVERY = os.environ["HIGHWATER_DELIVERY"]
LEVELS = ("disk", "region")
WAIT_MS_MAX = 50
NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


def pick(invented: str, choices: tuple[str, ...]) -> str:
    """The invented text one time in eight, otherwise one of the choices."""
    number = zlib.crc32(invented.encode("utf-8", "surrogatepass"))
    return invented if number % 8 == 0 else choices[number // 8 % len(choices)]


def better(name: str, value: object) -> object:
    if name == "tokens" and isinstance(value, list):
        return [pick(one, (TOKEN,)) if isinstance(one, str) and 1 <= len(one) <= 200 else one for one in value]
    if name == "level" and isinstance(value, str) and 1 <= len(value) <= 63:
        return pick(value, LEVELS)
    if name == "waitMs" and isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 60_000:
        return min(value, WAIT_MS_MAX)
    if name == "url" and isinstance(value, str) and 1 <= len(value) <= 2048:
        return pick(value, (HOOK,))
    return value


@schemathesis.hook
def before_call(context, case, kwargs) -> None:
    if isinstance(case.body, dict):
        case.body = {name: better(name, value) for name, value in case.body.items()}
    if case.query is not None:
        for name in list(case.query):
            case.query[name] = better(name, case.query[name])
        # A stream has no end that could be waited for.
        if case.path == "/v1/durability/events" and case.query.get("format") in (None, "stream"):
            case.query["format"] = "json"
    if case.path_parameters is not None and case.method in ("GET", "POST"):
        for name, there_is in (("id", WEBHOOK), ("delivery", DELIVERY)):
            value = case.path_parameters.get(name)
            if isinstance(value, str) and NAME.fullmatch(value):
                case.path_parameters[name] = pick(value, (there_is,))
