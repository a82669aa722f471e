// Builds the documentation site into site/dist and checks its links. Exit codes: 0 built without a
// fault; 1 Astro fails, a link leads nowhere, or a page loads something from elsewhere.
import { buildSite, DIST } from "./build.ts";

try {
  const { pages, links, faults } = await buildSite();
  for (const fault of faults) console.error(fault);
  console.log(`${DIST}: ${String(pages)} pages, ${String(links)} links, ${String(faults.length)} faults`);
  if (faults.length > 0) process.exitCode = 1;
} catch (cause) {
  const { stdout = "", stderr = "" } = cause as { stdout?: string; stderr?: string };
  console.error(`${stdout}${stderr}${String(cause)}`);
  process.exitCode = 1;
}
