"""The package says that it is typed: without the marker a user's type checker ignores every annotation."""

from importlib.resources import files


def test_the_package_is_marked_as_typed() -> None:
    assert files("highwater").joinpath("py.typed").is_file()
