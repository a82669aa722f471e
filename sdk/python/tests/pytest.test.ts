// The tests of the Python SDK that start no real system, build no package and wait for no long limit.
import { test } from "node:test";
import { pytest } from "./python.ts";

test("pytest: the tests without a system", (context) =>
  pytest(context, "not real and not package and not late"));
