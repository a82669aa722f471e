// The tests of the Python SDK on the real system, which one fixture starts for all of them, without its failovers and adapters.
import { test } from "node:test";
import { pytest } from "./python.ts";

test("pytest: the tests on the real system", (context) =>
  pytest(context, "real and not adapters and not failover and not package"));
