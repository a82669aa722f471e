"""What the observers of the package make of events, and that an observer disturbs nothing."""

import logging

import pytest

from highwater._core.errors import connection_error
from highwater._core.observer import EndObserver, ObservedEnd, ObservedEvent, Observer, notify, observers
from highwater._observers import log_events, print_events

ID = "0198c000-0000-7000-8000-000000000001"


def play(observer: Observer) -> None:
    """The life of a transaction that is retried, committed and lost."""
    headers = {"authorization": "Bearer secret"}
    commit = notify(observer, ObservedEvent(type="commit", id=ID, statements=2, headers=headers))
    error = connection_error("connection_failed", "no answer", sent=True)
    notify(observer, ObservedEvent(type="retry", id=ID, attempt=1, url="https://near.example", error=error))
    commit(ObservedEnd(state="committed"))
    notify(observer, ObservedEvent(type="lost", id=ID, level="region", waited=0.0123456))


def test_the_life_of_a_transaction_in_lines() -> None:
    lines: list[str] = []
    play(print_events(lines.append))
    assert [line[line.index("ms  ") + 4 :].split(" in ")[0].rstrip() for line in lines] == [
        (
            f"retry         id={ID} url=https://near.example attempt=1 error=NoAnswerError code=connection_failed "
            "outcome=unknown"
        ),
        f"commit        id={ID} statements=2 state=committed",
        f"lost          id={ID} level=region waited=0.012346",
    ]
    assert "secret" not in "".join(lines)


def test_structured_records(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="highwater"):
        play(log_events())
    assert [(record.levelno, record.__dict__["highwater"]["event"]) for record in caplog.records] == [
        (logging.INFO, "retry"),
        (logging.DEBUG, "commit"),
        (logging.ERROR, "lost"),
    ]
    assert caplog.records[1].__dict__["highwater"] == {
        "event": "commit",
        "id": ID,
        "statements": 2,
        "state": "committed",
    }
    assert "secret" not in caplog.text


def test_a_failed_call_names_its_error(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="highwater"):
        ended = notify(log_events(), ObservedEvent(type="begin", id=ID))
        ended(ObservedEnd(error=connection_error("connection_failed", "no answer", sent=False)))
    assert caplog.records[0].__dict__["highwater"]["outcome"] == "not_applied"


def test_what_an_observer_raises_is_logged_and_goes_no_further(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str | None] = []

    def fails(event: ObservedEvent) -> EndObserver:
        raise RuntimeError(event.type)

    def fails_at_the_end(event: ObservedEvent) -> EndObserver:
        def ended(end: ObservedEnd) -> None:
            raise RuntimeError(event.type)

        return ended

    def sees(event: ObservedEvent) -> EndObserver:
        return lambda end: seen.append(end.state)

    every = observers([fails, fails_at_the_end, sees])
    notify(every, ObservedEvent(type="commit"))(ObservedEnd(state="committed"))
    assert seen == ["committed"]
    assert [record.message for record in caplog.records] == [
        "an observer failed at commit",
        "an observer failed at the end of commit",
    ]


def test_no_one_observes() -> None:
    assert observers([]) is None
    notify(None, ObservedEvent(type="commit"))(ObservedEnd())
