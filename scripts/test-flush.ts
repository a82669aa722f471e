// Loaded into each process that runs a test file: with --test-force-exit, Node 24.21 ends it once its reports are handed to
// standard output, and loses those that the pipe has had no room for (nodejs/node#64833). It would wait for an output that it
// can close, so this one can be: "closed" is when all of it is written.
import { isMainThread } from "node:worker_threads";

if (isMainThread && process.env["NODE_TEST_CONTEXT"] !== undefined)
  Object.assign(process.stdout, {
    close: (done: () => void) => {
      process.stdout.write("", done);
    },
  });
