"""The package says that it is typed, without which a user's type checker ignores every annotation, and
`from highwater import *` leaves the builtins as they are.
"""

import builtins
from importlib.resources import files

import highwater
from highwater import errors, gate, outbox, stores, webhooks


def test_the_package_is_marked_as_typed() -> None:
    assert files("highwater").joinpath("py.typed").is_file()


def test_no_public_name_shadows_a_builtin() -> None:
    for module in (highwater, errors, gate, outbox, stores, webhooks):
        assert set(module.__all__) & set(dir(builtins)) == set(), module.__name__
