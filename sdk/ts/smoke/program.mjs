// A tiny consumer of the built package, for every runtime: it commits, waits, conflicts and loses, with nothing but the web's own
// globals. `run` is given the package; started as a program, with the package's address and a service's, it imports it.
export async function run(
  { Highwater, sql, TransactionLostError, DurabilityTimeoutError, decodeArray },
  url,
) {
  const events = [];
  const observe = ({ type }) => {
    events.push(type);
  };
  const hw = new Highwater({ url, observe });
  const printed = [];
  const off = hw.onLost(({ verdict }) => printed.push(verdict));

  const first = await hw.transaction(sql`SELECT ${1n}, ${[1, null]}, ${new Uint8Array([1, 2])}`);
  const { n, list, at, bytes } = first.rows[0];
  printed.push(
    `${typeof n} ${n}`,
    JSON.stringify(list),
    at.toISOString(),
    bytes.length,
    decodeArray("{a,b}").join(),
  );
  printed.push((await first.durable()).rule);

  const second = await hw.transaction(sql`SELECT 2`, { metadata: { order: "7" } });
  await second.durable().catch((error) => {
    printed.push(error instanceof TransactionLostError, error.code, error.metadata.order);
  });

  const tx = await hw.begin();
  await tx.query(sql`SELECT 3`);
  await tx.execute([sql`SELECT 4`, sql`SELECT 5`]);
  printed.push((await tx.commit()).state);

  let runs = 0;
  await hw.transact(async (inner) => {
    runs += 1;
    await inner.query({ sql: "conflict once" });
  });
  printed.push(`${runs} runs`);

  const session = hw.session({ causal: true });
  await session.transaction(sql`SELECT 6`);
  const [verdict] = await hw.verdicts([first.token]);
  printed.push(verdict.verdict, session.token.length > 10);
  const never = hw.promise(first.token).durable({ level: "global", timeoutMs: 1 });
  await never.catch((error) => printed.push(error instanceof DurabilityTimeoutError || error.code));
  off();
  await hw.close();
  printed.push([...new Set(events)].sort().join(" "));
  return printed.join("\n");
}

const [address, url] = globalThis.process?.argv?.slice(2) ?? globalThis.Deno?.args ?? [];
if (address !== undefined && url !== undefined) {
  import(address).then((sdk) => run(sdk, url)).then(console.log, console.log);
}
