// The tests of the Python SDK that wait for time limits. Each limit is longer than a busy machine stalls, which adds up to a minute.
import { test } from "node:test";
import { pytest } from "./python.ts";

test("pytest: the tests that wait for a time limit", (context) => pytest(context, "late"));
