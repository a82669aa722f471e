// The tests of SQLAlchemy and of enlisted connections on the real system, which one fixture starts for all of them.
import { test } from "node:test";
import { pytest } from "./python.ts";

test("pytest: the tests of the adapters on the real system", (context) =>
  pytest(context, "real and adapters and not failover"));
