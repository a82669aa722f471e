// Unpacks Chromium with its libraries and font below TMPDIR, where its package puts them, and
// prints where the program is. A program of its own, since that place is the whole process's, and a
// file that is there counts as whole however little of it is.
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import chromium, { inflate } from "@sparticuz/chromium";

const archives = fileURLToPath(new URL("../bin/", import.meta.resolve("@sparticuz/chromium")));
const [program] = await Promise.all([
  chromium.executablePath(archives),
  inflate(join(archives, "al2023.tar.br")),
]);
console.log(program);
