// Applies one of the deliberate bugs. Each service loads this before everything else (--import).
import { patchSource } from "@highwater/lab-tools/process";
import { MUTANTS } from "./list.ts";

const wanted = process.env["HIGHWATER_MUTANT"] ?? "";
const mutant = MUTANTS.find(({ name }) => name === wanted);
if (mutant !== undefined) patchSource(wanted, mutant.patch);
