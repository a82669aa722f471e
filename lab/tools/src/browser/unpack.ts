// Unpacks Chromium with its libraries and font into TMPDIR, where its package expects them, and
// prints the program's path. A separate process, because TMPDIR is global to a process, and because
// the package takes even a partly written file for complete.
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import chromium, { inflate } from "@sparticuz/chromium";

const archives = fileURLToPath(new URL("../bin/", import.meta.resolve("@sparticuz/chromium")));
const [program] = await Promise.all([
  chromium.executablePath(archives),
  inflate(join(archives, "al2023.tar.br")),
]);
console.log(program);
