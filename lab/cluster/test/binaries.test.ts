// Goal: HIGHWATER_PG_BIN chooses the servers of the whole lab, and an embedded package that it names
// works as npm leaves it. Method: a made-up package without its symbolic links, which only its owner
// can enter.

import assert from "node:assert/strict";
import { chmod, lstat, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { findBinaries, namedBinDir } from "../src/index.ts";
import { chooseIdentity } from "../src/unprivileged.ts";
import { makeTempParent } from "./support.ts";

const VARIABLE = "HIGHWATER_PG_BIN";

describe("the variable", () => {
  let before: string | undefined;
  beforeEach(() => {
    before = process.env[VARIABLE];
  });
  afterEach(() => {
    if (before === undefined) delete process.env[VARIABLE];
    else process.env[VARIABLE] = before;
  });

  for (const [value, folder] of [
    ["", undefined],
    ["/opt/postgres/bin", "/opt/postgres/bin"],
    ["postgres/bin", path.resolve("postgres/bin")],
  ] as const)
    it(`${JSON.stringify(value)} names ${String(folder)}`, () => {
      process.env[VARIABLE] = value;
      assert.equal(namedBinDir(), folder);
    });
});

async function makePackage(root: string): Promise<string> {
  const native = path.join(root, "node_modules", "postgres-17", "native");
  const files = {
    "bin/postgres": '#!/bin/sh\necho "postgres (PostgreSQL) 17.10"\n',
    "bin/initdb": "#!/bin/sh\n",
    "share/postgresql/postgres.bki": "",
    "lib/postgresql/plpgsql.so": "",
    "lib/libpq.so.5.17": "",
    "pg-symlinks.json": JSON.stringify([
      { source: "native/lib/libpq.so.5.17", target: "native/lib/libpq.so.5" },
    ]),
  };
  for (const [name, text] of Object.entries(files)) {
    const file = path.join(native, name);
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, text);
    if (name.startsWith("bin/")) await chmod(file, 0o755);
  }
  return native;
}

it("an embedded package of another version gets its symbolic links, and a copy if the servers' user cannot enter it", async () => {
  await using temp = await makeTempParent();
  const native = await makePackage(path.join(temp.dir, "closed"));
  await chmod(path.join(temp.dir, "closed"), 0o700);
  const identity = await chooseIdentity(undefined);
  const copyTo = path.join(temp.dir, "native");
  const options = { binDir: path.join(native, "bin"), identity, copyTo };
  for (let use = 1; use <= 2; use++) {
    const { postgres, version, majorVersion } = await findBinaries(options);
    assert.deepEqual([version, majorVersion], ["17.10", 17]);
    // Copies of several versions stand side by side.
    const used = identity === undefined ? native : `${copyTo}-postgres-17`;
    assert.equal(postgres, path.join(used, "bin", "postgres"));
    assert.ok((await lstat(path.join(used, "lib", "libpq.so.5"))).isSymbolicLink());
  }
});
