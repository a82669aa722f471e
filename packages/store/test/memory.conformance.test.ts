import { type Offset } from "@highwater/protocol";
import { storeConformance } from "../src/conformance.ts";
import { makeMemoryHarness } from "./memory-harness.ts";

/** As the timestamps of a hybrid logical clock: nanoseconds since 1970, and ten digits of a counter. */
const LONG_POSITION = 17_958_852_000_000_000_000_000_000_000n as Offset;

storeConformance("memory", () => makeMemoryHarness());
storeConformance("memory, positions of 29 digits", () => makeMemoryHarness(LONG_POSITION));
