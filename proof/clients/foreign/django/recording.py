"""Prints a line of JSON for each of Django's tests: its name and its result."""

import json
import unittest
from typing import Any

from django.test.runner import DiscoverRunner


class Recorded(unittest.TextTestResult):
    def _say(self, test: unittest.TestCase, result: str) -> None:
        print(json.dumps({"case": test.id(), "result": result}), flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self._say(test, "passed")

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self._say(test, f"error: {err[0].__name__}")

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self._say(test, "failed")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self._say(test, f"skipped: {reason}")

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addExpectedFailure(test, err)
        self._say(test, "failed as expected")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        super().addUnexpectedSuccess(test)
        self._say(test, "passed unexpectedly")


class Runner(DiscoverRunner):
    def get_resultclass(self) -> type[unittest.TextTestResult]:
        return Recorded
