// Goal: the export has every loss once, also of later pages, and reads only contents that are kept and wanted.
import assert from "node:assert/strict";
import { test } from "node:test";
import { exportLost } from "./lost-list.ts";

test("the export follows the pages, and reads contents only where they are kept and wanted", async () => {
  const pages = [
    {
      lost: [
        { id: "a", contents: "kept" },
        { id: "b", contents: "not_kept" },
      ],
      next: "2",
    },
    { lost: [{ id: "c", contents: "kept" }], next: null },
  ];
  const asked: string[] = [];
  const get = (path: string): Promise<never> => {
    asked.push(path);
    const answer = path.startsWith("/v1/lost?") ? pages[path.includes("after=2") ? 1 : 0] : { path };
    return Promise.resolve(answer as never);
  };
  const linesOf = async (withContents: boolean) =>
    (await exportLost({ get }, withContents))
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as unknown);
  assert.deepEqual(await linesOf(true), [
    { path: "/v1/lost/a" },
    { id: "b", contents: "not_kept", kept: null },
    { path: "/v1/lost/c" },
  ]);
  asked.length = 0;
  assert.equal((await linesOf(false)).length, 3);
  assert.deepEqual(asked, ["/v1/lost?limit=1000", "/v1/lost?limit=1000&after=2"]);
});
