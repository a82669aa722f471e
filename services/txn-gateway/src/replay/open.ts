// Opens the transactions in which lost ones are examined, and run again.
import { type DeploymentKeys, sessionPrincipal } from "@highwater/service";
import { type OpenTransaction, type TransactionSpec } from "@highwater/store";
import { lifespanMs } from "../attempts/bounds.ts";
import { type Config } from "../config.ts";
import { type Deps } from "../deps.ts";
import { type PrimaryEpoch } from "../primary/primary.ts";
import { type Caller } from "../txn/caller.ts";
import { INTERACTIVE } from "../txn/digest.ts";
import { newTxnId } from "../txn/new-id.ts";
import { type LostWrite } from "./gather.ts";

export interface OpenContext {
  readonly config: Config;
  readonly deps: Deps;
  readonly keys: Pick<DeploymentKeys, "receiptTag">;
}

export async function openFor(
  { deps, keys, config }: OpenContext,
  { node, epoch }: PrimaryEpoch,
  { principal, signal }: Caller,
  how: Pick<TransactionSpec, "readOnly" | "isolation"> &
    Partial<Pick<TransactionSpec, "id" | "tag">> & {
      readonly role: string | null;
      readonly contents?: LostWrite["contents"];
    },
): Promise<OpenTransaction> {
  const id = how.id ?? newTxnId(deps.clock.wallMs());
  const { statement_timeout: statementMs, lock_timeout: lockMs } = how.contents?.settings ?? {};
  const opening = await deps.store.begin(
    node,
    {
      id,
      tag: how.tag ?? keys.receiptTag(principal.owner, id),
      epoch,
      statements: [],
      isolation: how.isolation,
      readOnly: how.readOnly,
      role: how.role,
      digest: how.readOnly ? 0n : INTERACTIVE,
      principal: sessionPrincipal({ ...principal, role: how.role }),
      statementTimeoutMs: Number(statementMs ?? config.statementTimeoutMs),
      lockTimeoutMs: Number(lockMs ?? config.lockTimeoutMs),
      limitMs: lifespanMs(config.totalTimeoutMs, "interactive"),
      maxRows: config.maxRows,
      maxBytes: config.maxResultBytes,
      tellsOrder: !how.readOnly,
    },
    signal,
  );
  if (opening.kind === "open") return opening.transaction;
  throw new Error("a new id has a receipt already");
}
