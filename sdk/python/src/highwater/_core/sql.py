"""Pieces of SQL: text with ``$1``, ``$2``, ... and the values beside it, never inside it.

    sql("UPDATE account SET balance = balance - {amount} WHERE id = {id}", amount=10, id=1)

A placeholder in braces becomes a numbered parameter; a piece made by ``sql`` in its place is spliced in, with its own
parameters renumbered. No value ever reaches the text: that is what makes it proof against injection, so never build a
template with an f-string or with ``+``. Braces that belong to the SQL are doubled, as in ``str.format``: ``'{{1,2}}'``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from string import Formatter
from typing import Final, LiteralString, TypeAlias, cast

from .errors import usage_error
from .params import json_text, to_param
from .wire import Statement
from .wire_types import Param

_WORD_CHAR: Final = re.compile(r"[A-Za-z0-9_$\u0080-\U0010ffff]")
"""What PostgreSQL could take for a part of an identifier or a number."""


class _Value:
    """A parameter, in the place that its number will have."""

    __slots__ = ("param",)

    def __init__(self, param: Param) -> None:
        self.param: Final = param


_Piece: TypeAlias = "str | _Value"


class Sql:
    """A piece of SQL with its parameters. Made by ``sql``; immutable; can be a part of another one.

    Example:
        condition = sql("balance >= {least}", least=10)
        query = sql("SELECT id FROM account WHERE {condition} AND id = {id}", condition=condition, id=1)
        print(query.text, query.params)  # SELECT id FROM account WHERE balance >= $1 AND id = $2 (10, 1)
    """

    __slots__ = ("_pieces", "_statement")

    def __init__(self, pieces: Sequence[_Piece], /) -> None:
        self._pieces: Final = tuple(pieces)
        self._statement: Statement | None = None

    @property
    def text(self) -> str:
        """The text, with parameters numbered from ``$1``."""
        return self.to_statement().sql

    @property
    def params(self) -> Sequence[object]:
        """The parameters in the order of their numbers, as the wire carries them."""
        return self.to_statement().params

    def to_statement(self) -> Statement:
        """The statement as the wire carries it."""
        if self._statement is None:
            self._statement = _number(self._pieces)
        return self._statement

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sql) and self.to_statement() == other.to_statement()

    def __hash__(self) -> int:
        return hash((self.text, tuple(self.params)))

    def __repr__(self) -> str:
        # Values may be secrets, and a repr ends up in logs.
        return f"<Sql {self.text!r} with {len(self.params)} parameters>"


def _number(pieces: Sequence[_Piece]) -> Statement:
    params: list[Param] = []
    parts: list[str] = []
    last = ""
    is_after_param = False
    for piece in pieces:
        if isinstance(piece, _Value):
            # "LIMIT$1" would be an identifier, and "$1" followed by "0" another parameter.
            if _WORD_CHAR.match(last):
                parts.append(" ")
            params.append(piece.param)
            parts.append(f"${len(params)}")
            last = "0"
            is_after_param = True
        elif piece:
            if is_after_param and _WORD_CHAR.match(piece):
                parts.append(" ")
            parts.append(piece)
            last = piece[-1]
            is_after_param = False
    return Statement("".join(parts), tuple(params))


@lru_cache(maxsize=1_024)
def _parse(template: str) -> tuple[tuple[str, str | None], ...]:
    """Text and the name of the placeholder after it, or None after the last text."""
    try:
        parsed = tuple(Formatter().parse(template))
    except ValueError as error:
        message = f"{error}; double the braces of the SQL itself: {{{{ and }}}}"
        raise usage_error("invalid_sql", message, error) from error
    for _text, name, spec, conversion in parsed:
        if name is not None and (not name.isidentifier() or spec or conversion):
            raise usage_error(
                "invalid_sql",
                f"{{{name}}} is not a placeholder: put a name in braces, and double the braces of the SQL itself",
            )
    return tuple((text, name) for text, name, _spec, _conversion in parsed)


def _pieces_of(value: object, name: str = "a value") -> Sequence[_Piece]:
    return value._pieces if isinstance(value, Sql) else (_Value(to_param(value, name)),)


class SqlBuilder:
    """What ``sql`` is: called it makes a statement, and its methods make the parts that are no values."""

    __slots__ = ()

    def __call__(self, template: LiteralString, /, **values: object) -> Sql:
        """Builds a piece of SQL: values become parameters, pieces made by ``sql`` are spliced in.

        Shape: str, bool, None, int, float, Decimal, datetime, date, time, timedelta, UUID, bytes and addresses; lists
        and tuples as arrays; dicts as JSON.

        Args:
            template: Text with names in braces; braces that belong to the SQL are doubled. Never made with an f-string.
            values: One for each name.

        Errors: ``invalid_sql`` for a template with stray braces, a placeholder without a value or a value without a
        placeholder; ``invalid_parameter`` for a value that has no SQL form.

        Example:
            table = sql.ident("public", "account")
            wanted = sql.join([1, 2, 3])
            query = sql("SELECT id FROM {table} WHERE id IN ({wanted}) ORDER BY id", table=table, wanted=wanted)
            print(hw.transaction(query).rows)  # [{'id': 1}, {'id': 2}, {'id': 3}]
        """
        pieces: list[_Piece] = []
        used = set()
        for text, name in _parse(template):
            pieces.append(text)
            if name is None:
                continue
            if name not in values:
                raise usage_error("invalid_sql", f"no value for {{{name}}}")
            used.add(name)
            pieces.extend(_pieces_of(values[name], f"{{{name}}}"))
        unused = values.keys() - used
        if unused:
            raise usage_error("invalid_sql", f"no placeholder for {', '.join(sorted(unused))}")
        return Sql(pieces)

    def raw(self, text: str, /) -> Sql:
        """Text that goes into the statement as it is, braces too. Never give it anything that a user typed.

        Args:
            text: SQL.
        """
        return Sql((text,))

    def ident(self, *parts: str) -> Sql:
        """A quoted identifier; several parts are joined with dots: ``sql.ident("public", "account")``.

        Args:
            parts: Names as they are in the database, without quotes.

        Errors: ``invalid_identifier``, where a part is empty or has a zero character.
        """
        if not parts:
            raise usage_error("invalid_identifier", "an identifier needs at least one part")
        for part in parts:
            if part == "" or "\0" in part:
                message = "an identifier must not be empty or contain a zero character"
                raise usage_error("invalid_identifier", message)
        return Sql((".".join('"{}"'.format(part.replace('"', '""')) for part in parts),))

    def join(self, items: Iterable[object], separator: Sql | None = None) -> Sql:
        """Pieces or values with a separator between them: ``sql.join([1, 2, 3])`` is ``$1, $2, $3``.

        Args:
            items: Any number; of none the piece is empty.
            separator: Another one than a comma, such as ``sql(" AND ")``.

        Errors: ``invalid_parameter``.
        """
        between: Sequence[_Piece] = (", ",) if separator is None else separator._pieces
        pieces: list[_Piece] = []
        for index, item in enumerate(items):
            if index > 0:
                pieces.extend(between)
            pieces.extend(_pieces_of(item))
        return Sql(pieces)

    def json(self, value: object, /) -> Sql:
        """A value as JSON text, for json and jsonb parameters. Needed for lists and scalars; dicts are JSON anyway.

        Args:
            value: What ``json.dumps`` takes.

        Errors: ``invalid_parameter``, where JSON has no such value.
        """
        return Sql((_Value(json_text(value)),))


sql: Final = SqlBuilder()
"""``sql(template, **values)``, ``sql.ident``, ``sql.join``, ``sql.json`` and ``sql.raw``."""

StatementInput: TypeAlias = Sql | Statement
"""A statement of a transaction: made by ``sql``, or spelled out with ``$1``, ``$2``, ... and its parameters."""


def to_statement(statement: StatementInput) -> Statement:
    """The statement with its parameters as the wire carries them."""
    if isinstance(statement, Sql):
        return statement.to_statement()
    # Callers without a type checker pass plain text, in which values may have been formatted: refused.
    if not isinstance(statement, cast("type[object]", Statement)):
        message = f"a statement must be sql(...) or a Statement, not {type(statement).__name__}"
        raise usage_error("invalid_statement", message)
    params = enumerate(statement.params, 1)
    return Statement(statement.sql, tuple(to_param(value, f"${number}") for number, value in params))
