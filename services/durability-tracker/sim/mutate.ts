// Loaded before everything else (--import): hands the product's source out with one of the deliberate bugs in it.
import { patchSource } from "@highwater/lab-tools/process";
import { MUTANTS } from "./mutants.ts";

const wanted = process.env["MUTANT"] ?? "";
const patch = MUTANTS.find(({ name }) => name === wanted)?.patch;
if (patch !== undefined) patchSource(wanted, patch);
