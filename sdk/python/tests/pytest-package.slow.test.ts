// The tests of what the Python SDK publishes: built, installed where there is nothing else, and checked for types there.
import { test } from "node:test";
import { pytest } from "./python.ts";

test("pytest: the tests of the package", (context) => pytest(context, "package"));
