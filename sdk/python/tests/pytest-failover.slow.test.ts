// The tests of the Python SDK in which the real system fails over.
import { test } from "node:test";
import { pytest } from "./python.ts";

test("pytest: the tests with a failover", (context) => pytest(context, "failover"));
