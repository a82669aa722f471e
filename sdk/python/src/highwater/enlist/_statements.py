"""Texts that begin and end transactions, the statements that ride on COMMIT, and their errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal

from .._core.errors import (
    HighwaterError,
    InvalidRequestError,
    TransactionAbortedError,
    TransactionLostError,
    usage_error,
)

if TYPE_CHECKING:
    from ._tickets import Issued

#: User code may have changed it; no lock may outlive the commit point.
EARLY: Final = b"SET LOCAL synchronous_commit TO off"
#: The receipt, where the transaction has written anything. The epoch is the one that the ticket
#: names, or the row has no id and is refused.
RECEIPT: Final = b"""INSERT INTO highwater.receipt (id, tag, epoch, digest)
SELECT CASE WHEN s.ids_from OPERATOR(pg_catalog.>) asked.id THEN NULL ELSE asked.id END, asked.tag, s.id, asked.digest
FROM (VALUES ($1::pg_catalog.uuid, $2::pg_catalog.uuid, $3::pg_catalog.uuid, $4::pg_catalog.int8)) asked (id, tag, epoch, digest)
LEFT JOIN highwater.current_epoch s ON s.id OPERATOR(pg_catalog.=) asked.epoch
WHERE pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL"""  # noqa: E501 - the service's own text
COMMIT: Final = b"COMMIT"
#: The tag of a receipt that was not needed.
NOTHING_WRITTEN: Final = b"INSERT 0 0"

Boundary = Literal["begin", "commit", "rollback", "refused"]

#: Other texts are not looked at.
_FIRST: Final = re.compile(r"\s*(?:begin|start|commit|end|rollback|abort|prepare|--|/\*|;)", re.IGNORECASE)
_ENDS: Final = re.compile(r"\b(?:commit|end|prepare)\b", re.IGNORECASE)
_BEGIN: Final = re.compile(r"(?:begin|start\s+transaction)\b[^;]*[\s;]*", re.IGNORECASE)
_END: Final = re.compile(
    r"(?:(commit|end)|rollback|abort)(?:\s+(?:work|transaction))?(?:\s+and\s+no\s+chain)?[\s;]*", re.IGNORECASE
)
#: The transaction would end without its receipt, or a second one would begin without a ticket.
#: PostgreSQL itself refuses COMMIT PREPARED inside a transaction.
_REFUSED: Final = re.compile(
    r"(?:commit(?!\s+prepared)|end|(?:rollback|abort)[^;]*and\s+chain|prepare\s+transaction)\b", re.IGNORECASE
)
#: The same for a later statement of a text.
_REFUSED_LATER: Final = re.compile(r";\s*(?:commit(?!\s+prepared)|end|prepare\s+transaction)\b", re.IGNORECASE)
#: The body of a function, whose END ends no transaction.
_ATOMIC: Final = re.compile(r"\bbegin\s+atomic\b", re.IGNORECASE)
_REFUSED_LATER_ATOMIC: Final = re.compile(r";\s*(?:commit(?!\s+prepared)|prepare\s+transaction)\b", re.IGNORECASE)
_READ_ONLY: Final = re.compile(r"\bread\s+only\b", re.IGNORECASE)
_MARK: Final = re.compile(r"""['"]|(?<![\w$])\$(?:[^\W\d]\w*)?\$|--|/\*""")
_NEWLINE: Final = re.compile(r"[\n\r]")
_COMMENT: Final = re.compile(r"/\*|\*/")


def receipt_values(issued: Issued) -> list[bytes]:
    return [each.encode() for each in (issued.id, issued.tag, issued.epoch, issued.digest)]


def boundary_of(text: str) -> Boundary | None:
    """A text of several statements is passed on as it is, but refused if one of them is COMMIT."""
    if _FIRST.match(text) is None and not (";" in text and _ENDS.search(text)):
        return None
    bare = _bare(text).lstrip(" \t\n\r\f\v;")
    end = _END.fullmatch(bare)
    if end is not None:
        return "commit" if end[1] else "rollback"
    later = _REFUSED_LATER_ATOMIC if _ATOMIC.search(bare) else _REFUSED_LATER
    if _REFUSED.match(bare) or later.search(bare):
        return "refused"
    return "begin" if _BEGIN.fullmatch(bare) and not _READ_ONLY.search(bare) else None


def _bare(text: str) -> str:
    """Puts blanks for comments, and `''` for what is quoted.

    It ends where it is not certain what is quoted: a backslash may hide the end of the quotes.
    """
    kept: list[str] = []
    at = 0
    while (found := _MARK.search(text, at)) is not None:
        mark, start = found[0], found.end()
        kept.append(text[at : found.start()])
        if mark in {"--", "/*"}:
            kept.append(" ")
            at = _end_of_comment(text, start, mark)
            continue
        kept.append("''")
        end = text.find(mark, start)
        if end < 0 or (mark in {"'", '"'} and "\\" in text[start:end]):
            return "".join(kept)
        at = end + len(mark)
    return "".join([*kept, text[at:]])


def _end_of_comment(text: str, start: int, mark: str) -> int:
    """Comments nest. One without an end is as long as the text."""
    ends = _NEWLINE if mark == "--" else _COMMENT
    depth = 1
    for found in ends.finditer(text, start):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    return len(text)


def is_refusal(error: BaseException) -> bool:
    """Whether the server itself said that the statement failed, and its session goes on."""
    diagnostic: Any = getattr(error, "diag", None)
    return diagnostic is not None and diagnostic.sqlstate is not None and diagnostic.severity_nonlocalized == "ERROR"


def is_failed(error: BaseException) -> bool:
    """Whether the transaction had failed before: its COMMIT is a ROLLBACK."""
    return getattr(error, "sqlstate", None) == "25P02"


def refusal_of(error: Exception, transaction_id: str) -> Exception:
    """Returns what the server's refusal of the receipt means.

    Another epoch (its NOT NULL or its policy, or a node that takes no writes), or that the id was
    settled. Other errors are the application's own.
    """
    code = getattr(error, "sqlstate", None)
    routine = getattr(getattr(error, "diag", None), "source_function", None)
    if code in {"23505", "23502", "25006"} or (code == "42501" and routine == "ExecWithCheckOptions"):
        why = "a failover, or the end of its ticket's time, has settled the transaction"
        return aborted(transaction_id, why, error)
    return error


def aborted(transaction_id: str, message: str, cause: BaseException | None = None) -> HighwaterError:
    return TransactionAbortedError(
        f"{message}: run it again",
        code="transaction_aborted",
        outcome="not_applied",
        retry="transaction",
        transaction_id=transaction_id,
        cause=cause,
    )


def lost(transaction_id: str, level: str, cause: HighwaterError) -> TransactionLostError:
    return TransactionLostError(
        "the transaction was committed, and a failure discarded it: run it again",
        code="transaction_lost",
        outcome="not_applied",
        retry="transaction",
        transaction_id=transaction_id,
        level=level,
        cause=cause,
    )


def refused(text: str) -> InvalidRequestError:
    message = f"an enlisted transaction cannot end by {text.strip()[:80]}; send COMMIT alone"
    return usage_error("transaction_control", message)
