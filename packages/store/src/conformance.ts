// The conformance suite that every adapter of the store port has to pass, over a harness that can
// break its cluster. It knows positions, epochs and receipts, but not how an adapter stores them.
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
