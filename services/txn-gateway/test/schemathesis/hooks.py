"""Makes the requests that schemathesis invents worth sending.

Left alone, nearly every one would be refused for an id of another century, a level that is not configured or SQL that
is none. It replaces only valid values, by better ones, so an invalid request stays as it was invented.
The choice depends on the invented value alone: a seed gives the same run.
"""

import os
import re
import time
import zlib

import requests
import schemathesis

UUID_V7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)
TOKEN = re.compile(r"hw2_[A-Za-z0-9_-]+")
LEVELS = ("disk", "global")
WAIT_MS_MAX = 50
MADE_UP_CHARS_MAX = 40
# What the database makes of an invented text is refused anyway; these run, or are refused for another reason.
SQL = (
    "SELECT 1 AS one",
    "SELECT n, n::text, NULL AS nothing, ARRAY[n] AS several FROM generate_series(1, 3) n",
    "INSERT INTO invented (note) VALUES ('x') RETURNING id, note",
    "INSERT INTO invented (note) SELECT n::text FROM generate_series(1, 5) n",
    "SELECT note FROM uninvented",
    "INSERT INTO invented (id, note) VALUES (1, 'taken')",
    "SELECT 1 / 0",
    "ROLLBACK",
)
# The first is one that the test has got from the service.
tokens = [os.environ["HIGHWATER_TOKEN"]]


def pick(invented: str, choices: tuple[str, ...]) -> str:
    """The invented text one time in eight, otherwise one of the choices."""
    number = zlib.crc32(invented.encode("utf-8", "surrogatepass"))
    return invented if number % 8 == 0 else choices[number // 8 % len(choices)]


def fresh_id() -> str:
    """A UUIDv7 of now."""
    stamp = int(time.time() * 1000).to_bytes(6, "big")
    noise = bytearray(os.urandom(10))
    noise[0] = 0x70 | noise[0] & 0x0F
    noise[2] = 0x80 | noise[2] & 0x3F
    text = (stamp + noise).hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def better_statement(statement: object, key: str) -> object:
    if not isinstance(statement, dict) or not isinstance(statement.get(key), str) or statement[key] == "":
        return statement
    sql = pick(statement[key], SQL)
    if sql == statement[key]:
        return statement
    # None of the statements above has parameters.
    return {**statement, key: sql, **({"params": []} if isinstance(statement.get("params"), list) else {})}


def better(name: str, value: object) -> object:
    if isinstance(value, list) and name == "transactions":
        # Chance invents no transaction: most of these run, the others are refused one by one.
        return [{"id": fresh_id(), "statements": [{"sql": pick(str(one), SQL)}]} for one in value]
    if isinstance(value, list) and name in ("statements", "queries"):
        return [better_statement(one, "sql" if name == "statements" else "query") for one in value]
    if isinstance(value, str):
        if name in ("id", "Highwater-Transaction-Id") and UUID_V7.fullmatch(value):
            return fresh_id()
        if name in ("level", "Highwater-Level") and 1 <= len(value) <= 63:
            return pick(value, LEVELS)
        if name == "after" and TOKEN.fullmatch(value):
            # What only looks like a token is refused; one of an unknown epoch is rightly answered 503.
            return pick(value, tuple(tokens[-3:])) if len(value) < MADE_UP_CHARS_MAX else tokens[-1]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if name == "maxWaitMs" and value == int(value) and 0 <= value <= 60_000:
            return min(int(value), WAIT_MS_MAX)
        if name == "wait" and 0 <= value <= 60:
            return min(value, WAIT_MS_MAX / 1000)
    if isinstance(value, str) and name == "Highwater-Max-Wait-Ms" and value.isdecimal() and int(value) <= 60_000:
        return str(min(int(value), WAIT_MS_MAX))
    return value


@schemathesis.hook
def before_call(context, case, kwargs) -> None:
    if isinstance(case.body, dict):
        whole = better_statement(case.body, "query") if case.path == "/sql" else case.body
        case.body = {name: better(name, value) for name, value in whole.items()}
    for container in (case.query, case.headers):
        for name, value in list((container or {}).items()):
            container[name] = better(name, value)


@schemathesis.hook
def after_call(context, case, response) -> None:
    if response.status_code != 200 or not case.path.startswith("/v1/transactions"):
        return
    if case.path.endswith("/batch"):
        return
    answer = response.json()
    if isinstance(answer.get("token"), str):
        tokens.append(answer["token"])
    if case.path.endswith("/begin") and answer["state"] == "active" and not may_go_on(case):
        roll_back(answer["id"], response.headers["highwater-session"][0])


def may_go_on(case) -> bool:
    """Only in the phase that follows links will there be further calls of the transaction."""
    return case.meta is not None and case.meta.phase.name.value == "stateful"


def roll_back(transaction_id: str, session: str) -> None:
    """It would hold its place, one of few, until it expires."""
    answer = requests.post(
        f"{os.environ['HIGHWATER_URL']}/v1/transactions/{transaction_id}/rollback",
        json={"seq": 1},
        headers={"Authorization": f"Bearer {os.environ['HIGHWATER_KEY']}", "Highwater-Session": session},
        timeout=20,
    )
    answer.raise_for_status()
