// Loaded into each service before everything else (--import): one of the deliberate bugs.
import { patchSource } from "@highwater/lab-tools/process";
import { MUTANTS } from "./list.ts";

const wanted = process.env["HIGHWATER_MUTANT"] ?? "";
const mutant = MUTANTS.find(({ name }) => name === wanted);
if (mutant !== undefined) patchSource(wanted, mutant.patch);
