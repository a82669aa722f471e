// Builds the console (`make console`).
import { buildConsole } from "./build.ts";

await buildConsole();
