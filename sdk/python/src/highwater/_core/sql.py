"""Pieces of SQL: text with ``$1``, ``$2``, ... and values that stay outside the text.

    sql("UPDATE account SET balance = balance - {amount} WHERE id = {id}", amount=10, id=1)

A placeholder in braces becomes a numbered parameter. A piece made by ``sql`` is spliced in, with
its parameters renumbered. No value ever becomes part of the text, which prevents SQL injection; so
never build a template with an f-string or with ``+``. Double the braces of the SQL itself, as in
``str.format``: ``'{{1,2}}'``.
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
"""Characters that PostgreSQL could read as part of an identifier or a number."""


class _Value:
    """A parameter, at the place where its number will be."""

    __slots__ = ("param",)

    def __init__(self, param: Param) -> None:
        self.param: Final = param


_Piece: TypeAlias = "str | _Value"


class Sql:
    """A piece of SQL with its parameters. Made by ``sql``; immutable; can be part of another piece.

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
        """The parameters in the order of their numbers, in wire form."""
        return self.to_statement().params

    def to_statement(self) -> Statement:
        """Returns the statement in wire form."""
        if self._statement is None:
            self._statement = _number(self._pieces)
        return self._statement

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sql) and self.to_statement() == other.to_statement()

    def __hash__(self) -> int:
        return hash((self.text, tuple(self.params)))

    def __repr__(self) -> str:
        # Values may be secret, and reprs end up in logs.
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
    """Splits a template into texts, each with the name of the placeholder after it or None."""
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
    """The class of ``sql``. Calling it makes a statement; methods make parts other than values."""

    __slots__ = ()

    def __call__(self, template: LiteralString, /, **values: object) -> Sql:
        """Builds a piece of SQL: values become parameters, pieces made by ``sql`` are spliced in.

        Shape: str, bool, None, int, float, Decimal, datetime, date, time, timedelta, UUID, bytes
        and addresses; lists and tuples as arrays; dicts as JSON.

        Args:
            template: Text with names in braces. Double the braces of the SQL itself. Never use an
                f-string.
            values: One value for each name.

        Errors: ``invalid_sql`` for stray braces, a placeholder without a value or a value without a
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
                raise usage_error("invalid_sql", f"no value for the placeholder {{{name}}}")
            used.add(name)
            pieces.extend(_pieces_of(values[name], f"{{{name}}}"))
        unused = values.keys() - used
        if unused:
            raise usage_error("invalid_sql", f"no placeholder for the values {', '.join(sorted(unused))}")
        return Sql(pieces)

    def raw(self, text: str, /) -> Sql:
        """Makes a piece of SQL from text that is used as it is, braces included.

        Never pass it user input.

        Args:
            text: SQL.
        """
        return Sql((text,))

    def ident(self, *parts: str) -> Sql:
        """Quotes an identifier: ``sql.ident("public", "account")`` joins its parts with a dot.

        Args:
            parts: Names as they are in the database, without quotes.

        Errors: ``invalid_identifier`` if a part is empty or contains a zero character.
        """
        if not parts:
            raise usage_error("invalid_identifier", "an identifier needs at least one part")
        for part in parts:
            if part == "" or "\0" in part:
                message = "an identifier must not be empty or contain a zero character"
                raise usage_error("invalid_identifier", message)
        return Sql((".".join('"{}"'.format(part.replace('"', '""')) for part in parts),))

    def join(self, items: Iterable[object], separator: Sql | None = None) -> Sql:
        """Joins pieces or values with a separator: ``sql.join([1, 2, 3])`` is ``$1, $2, $3``.

        Args:
            items: Any number of pieces or values. Without any, the result is empty.
            separator: Separator such as ``sql(" AND ")``. Default: a comma.

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
        """Makes a JSON parameter, for json and jsonb. Lists and scalars need it; dicts do not.

        Args:
            value: Value that ``json.dumps`` accepts.

        Errors: ``invalid_parameter`` if the value has no JSON form.
        """
        return Sql((_Value(json_text(value)),))


sql: Final = SqlBuilder()
"""Builds SQL: ``sql(template, **values)``, ``sql.ident``, ``.join``, ``.json`` and ``.raw``."""

StatementInput: TypeAlias = Sql | Statement
"""A statement of a transaction: made by ``sql``, or a ``Statement`` with ``$1``, ``$2``, ..."""


def to_statement(statement: StatementInput) -> Statement:
    """Returns the statement with its parameters in wire form."""
    if isinstance(statement, Sql):
        return statement.to_statement()
    # Without a type checker a caller may pass plain text, with values formatted into it.
    if not isinstance(statement, cast("type[object]", Statement)):
        message = f"a statement must be sql(...) or a Statement, not {type(statement).__name__}"
        raise usage_error("invalid_statement", message)
    params = enumerate(statement.params, 1)
    return Statement(statement.sql, tuple(to_param(value, f"${number}") for number, value in params))
