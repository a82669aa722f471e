import { storeConformance } from "../src/conformance.ts";
import { makePostgresHarness } from "./postgres-harness.ts";

storeConformance("PostgreSQL", makePostgresHarness);
