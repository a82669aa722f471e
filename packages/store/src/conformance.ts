// What every adapter of the store port must do, as one suite of tests over a harness that can break
// its cluster. Knows positions, epochs and receipts, and nothing of how an adapter keeps them.
import { describe } from "node:test";
import { authorityTests } from "./conformance/authority.ts";
import { copyTests } from "./conformance/copies.ts";
import { type MakeHarness } from "./conformance/harness.ts";
import { keyCheckTests } from "./conformance/key-checks.ts";
import { promotionTests } from "./conformance/promotions.ts";
import { receiptTests } from "./conformance/receipts.ts";
import { replicaReadTests } from "./conformance/replica-reads.ts";
import { restartTests } from "./conformance/restarts.ts";
import { sessionTests } from "./conformance/sessions.ts";
import { transactionTests } from "./conformance/transactions.ts";

/** Registers the suite with node:test. */
export function storeConformance(name: string, makeHarness: MakeHarness): void {
  describe(`${name}: store conformance`, () => {
    transactionTests(makeHarness);
    sessionTests(makeHarness);
    replicaReadTests(makeHarness);
    receiptTests(makeHarness);
    restartTests(makeHarness);
    promotionTests(makeHarness);
    copyTests(makeHarness);
    keyCheckTests(makeHarness);
    authorityTests(makeHarness);
  });
}
