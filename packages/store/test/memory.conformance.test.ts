import { storeConformance } from "../src/conformance.ts";
import { makeMemoryHarness } from "./memory-harness.ts";

storeConformance("memory", makeMemoryHarness);
