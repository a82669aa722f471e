// The conformance suite that every adapter of the store port has to pass, over a harness that can
// break its cluster. It knows positions, epochs and receipts, but not how an adapter stores them.
import { describe } from "node:test";
import { authorityTests } from "./conformance/authority.ts";
import { copyTests } from "./conformance/copies.ts";
import { type Exceptions, itExcept, type MakeHarness } from "./conformance/harness.ts";
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
    callTests(makeHarness, {});
    replicaReadTests(makeHarness);
    restartTests(makeHarness);
    promotionTests(makeHarness);
    copyTests(makeHarness);
    authorityTests(makeHarness);
  });
}

/**
 * The part of the suite that is about calls and not about servers: for a store whose nodes are
 * clusters, which do not restart, and whose standbys cannot be asked.
 */
export function clusterStoreConformance(
  name: string,
  makeHarness: MakeHarness,
  exceptions: Exceptions,
): void {
  describe(`${name}: store conformance`, () => {
    callTests(makeHarness, exceptions);
  });
}

function callTests(makeHarness: MakeHarness, exceptions: Exceptions): void {
  const it = itExcept(exceptions);
  transactionTests(makeHarness, it);
  sessionTests(makeHarness, it);
  receiptTests(makeHarness, it);
  keyCheckTests(makeHarness, it);
}
