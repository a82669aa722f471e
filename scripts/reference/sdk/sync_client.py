"""Writes the synchronous classes of the SDK for Python from the asynchronous ones.

Reads the text of the file that its argument names, and prints the synchronous one. That has other
names, no `await`, a parameter `cancel` (a task is cancelled by its event loop, a thread by a
`Cancellation`), and the texts of `DIFFERENCES`. How each waits is written by hand, in `_async.py`
and `_sync.py`.
"""

from __future__ import annotations

import ast
import re
import sys

HEAD = "# Generated from {} by scripts/reference/sdk/sync_client.py (make gen).\n"

#: By the asynchronous text, the synchronous one.
OF_CLIENT = {
    '"""The asynchronous client. It is bound to the event loop on which it is first used."""': (
        '"""The synchronous client. Each call blocks its thread; any number of threads may share a client."""'
    ),
    "from ._async import AsyncCalls, Turns, awaited, wait_durable": (
        "from ._sync import SyncCalls, Turns, wait_durable"
    ),
    "import BeginOptions, CommitOptions,": "import BeginOptions, Cancellation, CommitOptions,",
    "on its way to durability.\n\n    Its": "on its way to durability. Safe to use from any thread.\n\n    Its",
    "Ending or cancelling a wait changes nothing": "Ending a wait changes nothing",
    "`client_closed`.\n\n        Example:\n            tx =": (
        "`client_closed`; `concurrent.futures.CancelledError`.\n\n        Example:\n            tx ="
    ),
    "Runs a function once the transaction is durable, and returns its (awaited) result.": (
        "Runs a function in this thread once the transaction is durable, and returns its result."
    ),
    "It is called at most once.": "It is called at most once, in the calling\n                thread.",
    """        Example:
            async with AsyncHighwater("https://highwater.example") as hw:
                texts = [sql("INSERT INTO note VALUES ({text})", text=text) for text in ("a", "b", "c")]
                committed = await asyncio.gather(*(hw.transaction(text) for text in texts))
                await asyncio.gather(*(tx.durable(timeout=10) for tx in committed))  # one stream
                print(len(committed), "are durable")
""": """        Example:
            tx = hw.transaction(sql("INSERT INTO note VALUES ({text})", text="hello"), ack="durable", timeout=10)
            print(tx.state)  # "durable"
""",
    """        Sends nothing: the first statements open the transaction. `await hw.begin()` returns the
        same transaction, but does not roll it back if you leave it open. Prefer a one-shot
        transaction where it is enough: an open transaction holds locks and a database session.
""": """        Sends nothing: the first statements open the transaction. Prefer a one-shot transaction
        where it is enough: an open transaction holds locks and a database session. `cancel` applies
        to all calls of the transaction that have none of their own.
""",
    '''    def __await__(self) -> Generator[Any, None, Self]:
        """Supports `tx = await hw.begin()`. There is nothing to wait for."""
        yield from ()
        return self

''': "",
    "        self._turns = Turns(self.id)\n": "        self._turns = Turns(self.id)\n        self._cancel = cancel\n",
    "        async with self._turns.take(self._seconds(": (
        "        cancel = cancel or self._cancel\n        async with self._turns.take(self._seconds("
    ),
    "wait_durable(self._host, ": "wait_durable(",
    "wait_durable(self._client._host, ": "wait_durable(",
}

OF_ENLISTED = {
    "connections of the asynchronous client": "connections of the synchronous client",
    "from .._async import awaited, joined\n": "from .._options import Cancellation\nfrom .._sync import joined\n",
    "from ..aio import": "from ..client import",
    "is_async=True": "is_async=False",
    "An asynchronous connection": "A connection",
}
OF_STORES = {
    "Several stores for the asynchronous client": "Several stores for the synchronous client",
    "from .._async import awaited, ended, together\n": (
        "from .._options import Cancellation\nfrom .._sync import ended, together\n"
    ),
    "from ..aio import": "from ..client import",
    "        prepare(self._parts)\n": "",
    "        prepare(parts)\n": "",
    "It is called at most once.": "It is called at most once, in the calling\n                thread.",
}
DIFFERENCES = {"aio.py": OF_CLIENT, "enlist/_aio.py": OF_ENLISTED, "stores/_aio.py": OF_STORES}

#: What is left to rename when the texts above have been replaced.
PATTERNS = {
    r"\basync (def|with)\b": r"\1",
    r"\bawait awaited\((.*)\)$": r"\1",
    r"\(await (.*)\)(?=\.(?:rows|token)\b)": r"\1",
    r"\bawait ": "",
    r"\bAwaitable\[R\] \| R\b": "R",
    r"\bAwaitable\[(R|Any)\]": r"\1",
    r"\bAsyncCalls\b": "SyncCalls",
    r"\bAsync(?=[A-Z])": "",
    r"\b__a(enter|exit)__\b": r"__\1__",
}

#: The methods that take `cancel`, and the calls in them to which it is passed on.
TAKE = {
    *("transaction", "_transaction", "begin", "_begin", "transact", "_transact", "verdicts", "status", "durable"),
    *("_acknowledged", "after_durable", "query", "execute", "commit", "resume", "InteractiveTransaction.__init__"),
    "EnlistedTransaction.promise",
}
PASS = {
    *(
        "_acknowledged",
        "_run",
        "_run_body",
        "_transaction",
        "_begin",
        "_transact",
        "verdicts",
        "durable",
        "execute",
        "take",
    ),
    *("wait_durable", "InteractiveTransaction", "promise", "joined", "ended", "partial"),
}


def synchronous(name: str, text: str) -> str:
    for mine, theirs in DIFFERENCES[name].items():
        if mine not in text:
            sys.exit(f"{name} has no such text any more: {mine}")
        text = text.replace(mine, theirs)
    for pattern, theirs in PATTERNS.items():
        text = re.sub(pattern, theirs, text, flags=re.MULTILINE)
    return HEAD.format(name.rsplit("/", maxsplit=1)[-1]) + with_cancel(text)


def with_cancel(text: str) -> str:
    lines = text.splitlines(keepends=True)
    inserts: list[tuple[int, int, str]] = []
    for owner in [each for each in ast.parse(text).body if isinstance(each, ast.ClassDef)]:
        for method in [each for each in owner.body if isinstance(each, ast.FunctionDef)]:
            if {method.name, f"{owner.name}.{method.name}"} & TAKE:
                inserts.append(parameter(method))
                inserts += [argument(call) for call in ast.walk(method) if isinstance(call, ast.Call) and takes(call)]
    for line, column, inserted in sorted(inserts, reverse=True):
        raw = lines[line - 1].encode()
        lines[line - 1] = (raw[:column] + inserted.encode() + raw[column:]).decode()
    return "".join(lines)


def parameter(method: ast.FunctionDef) -> tuple[int, int, str]:
    names = method.args
    added = "cancel: Cancellation | None = None"
    if not names.kwonlyargs:
        added = f"*, {added}"
    if names.kwarg is not None:
        # The asterisks stand before the name.
        return names.kwarg.lineno, names.kwarg.col_offset - 2, f"{added}, "
    last: list[ast.arg | ast.expr] = [
        *names.args,
        *names.defaults,
        *names.kwonlyargs,
        *(each for each in names.kw_defaults if each),
    ]
    line, column = max((each.end_lineno or 0, each.end_col_offset or 0) for each in last)
    return line, column, f", {added}"


def takes(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in PASS


def argument(call: ast.Call) -> tuple[int, int, str]:
    before = ", " if call.args or call.keywords else ""
    return call.end_lineno or 0, (call.end_col_offset or 0) - 1, f"{before}cancel=cancel"


print(synchronous(sys.argv[1], sys.stdin.read()), end="")
