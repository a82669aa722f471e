// The calls with which an owner manages its endpoints and deliveries.
import { randomBytes } from "node:crypto";
import {
  type CreatedWebhook,
  type DeliveryDetails,
  type DeliveryList,
  type DeliveryStatus,
  HighwaterError,
  type NewWebhook,
  type RecoverResponse,
  type Webhook,
  type WebhookChange,
  type WebhookDelivery,
  WEBHOOK_LIMITS,
  type WebhookSecret,
} from "@highwater/protocol";
import { type Clock } from "@highwater/runtime";
import { type AllowList, checkedAddresses, checkUrl, type Resolve } from "./address.ts";
import { type Database, type Executor } from "./database.ts";
import * as deliveries from "./deliveries.ts";
import * as endpoints from "./endpoints.ts";
import { insertDeliveries } from "./enqueue.ts";
import { type Jobs, newJobId } from "./jobs.ts";
import { testMessage } from "./message.ts";
import { makeSecret } from "./signature.ts";

/** The parts that exist during an epoch. */
export interface Session {
  readonly database: Database;
  readonly jobs: Jobs;
}

export interface AdminDeps {
  /** Errors: HighwaterError `primary_unavailable`. */
  readonly session: () => Session;
  readonly clock: Clock;
  readonly allow: AllowList;
  readonly resolve: Resolve;
  readonly endpointsPerOwner: number;
  /** Called when there is something to send. */
  readonly onEnqueued: () => void;
}

export interface EndpointId {
  readonly owner: bigint;
  readonly id: string;
}

const RESOLVE_LIMIT_MS = 5_000;
const RECOVER_BATCH = 500;
const RECOVER_BATCHES = 20;

export class WebhookAdmin {
  readonly #deps: AdminDeps;

  constructor(deps: AdminDeps) {
    this.#deps = deps;
  }

  /** `by`, here and below: the caller, for the audit log. */
  async create(owner: bigint, asked: NewWebhook, by: string): Promise<CreatedWebhook> {
    const { url, events, filter = {}, description = "" } = asked;
    assertStorable(description);
    const checked = await this.#checkUrl(url);
    const secret = makeSecret();
    const id = `ep_${randomBytes(15).toString("base64url")}`;
    const row = { id, owner, url: checked, description, events, filter, secret };
    const most = this.#deps.endpointsPerOwner;
    const made = await this.#changeBy(by, (client) => endpoints.insertEndpoint(client, row, most));
    if (made === null)
      throw new HighwaterError("webhook_limit", {
        detail: `The owner has ${String(most)} webhook endpoints, the limit (endpoints); remove one first.`,
        limit: { name: "endpoints", value: most },
      });
    return { ...made, secret };
  }

  async list(owner: bigint): Promise<Webhook[]> {
    return endpoints.listEndpoints(this.#deps.session().database, owner);
  }

  async read({ owner, id }: EndpointId): Promise<Webhook> {
    return known(await endpoints.readEndpoint(this.#deps.session().database, owner, id));
  }

  async change({ owner, id }: EndpointId, asked: WebhookChange, by: string): Promise<Webhook> {
    const { url, description } = asked;
    assertStorable(description ?? "");
    const { database } = this.#deps.session();
    // A caller that does not own the endpoint learns nothing about the URL either.
    known(await endpoints.readEndpoint(database, owner, id));
    const change = url === undefined ? asked : { ...asked, url: await this.#checkUrl(url) };
    return known(await this.#changeBy(by, (client) => endpoints.changeEndpoint(client, owner, id, change)));
  }

  async remove({ owner, id }: EndpointId, by: string): Promise<void> {
    const isRemoved = await this.#changeBy(by, (client) => endpoints.deleteEndpoint(client, owner, id));
    if (!isRemoved) throw new HighwaterError("not_found");
  }

  async secret({ owner, id }: EndpointId): Promise<WebhookSecret> {
    return known(await endpoints.readSecret(this.#deps.session().database, owner, id));
  }

  async rotate(endpoint: EndpointId, overlapSeconds: number | undefined, by: string): Promise<WebhookSecret> {
    const change = {
      secret: makeSecret(),
      overlapSeconds: overlapSeconds ?? WEBHOOK_LIMITS.overlapSecondsDefault,
    };
    return known(await this.#changeBy(by, (client) => endpoints.rotateSecret(client, endpoint, change)));
  }

  /** Also sent to a disabled endpoint, to find out whether it can be enabled again. */
  async test(endpoint: EndpointId): Promise<WebhookDelivery> {
    await this.read(endpoint);
    const { database, jobs } = this.#deps.session();
    const message = testMessage(
      endpoint.id,
      randomBytes(15).toString("base64url"),
      this.#deps.clock.wallMs(),
    );
    await database.transaction((client) =>
      insertDeliveries(client, [{ ...message, endpoint: endpoint.id, job: newJobId() }], () => jobs),
    );
    this.#deps.onEnqueued();
    return known(await deliveries.readDelivery(database, endpoint.id, message.id), withoutBody);
  }

  async deliveries(
    endpoint: EndpointId,
    page: { readonly status: DeliveryStatus | null; readonly before: string | null; readonly limit: number },
  ): Promise<DeliveryList> {
    await this.read(endpoint);
    return deliveries.listDeliveries(this.#deps.session().database, { endpoint: endpoint.id, ...page });
  }

  async delivery(endpoint: EndpointId, delivery: string): Promise<DeliveryDetails> {
    await this.read(endpoint);
    return known(await deliveries.readDelivery(this.#deps.session().database, endpoint.id, delivery));
  }

  /** Sends it again from the beginning of the schedule, under the same webhook-id. */
  async redeliver(endpoint: EndpointId, delivery: string): Promise<WebhookDelivery> {
    await this.#assertEnabled(endpoint);
    const { database, jobs } = this.#deps.session();
    const found = await database.transaction(async (client) => {
      const begun = await deliveries.redeliver(client, endpoint.id, delivery);
      if (begun !== null)
        await jobs.enqueue(client, [{ id: begun.job, delivery, endpoint: endpoint.id, delayMs: 0 }]);
      return begun;
    });
    this.#deps.onEnqueued();
    return known(found).delivery;
  }

  /** Sends again all deliveries since then that have failed or were held back. */
  async recover(endpoint: EndpointId, sinceMs: number): Promise<RecoverResponse> {
    await this.#assertEnabled(endpoint);
    const { database, jobs } = this.#deps.session();
    let recovered = 0;
    for (let batch = 0; batch < RECOVER_BATCHES; batch++) {
      const some = await database.transaction(async (client) => {
        const about = { endpoint: endpoint.id, sinceMs, limit: RECOVER_BATCH };
        const begun = await deliveries.recoverSome(client, about);
        await jobs.enqueue(
          client,
          begun.map(({ delivery, job }) => ({ id: job, delivery, endpoint: endpoint.id, delayMs: 0 })),
        );
        return begun.length;
      });
      recovered += some;
      if (some < RECOVER_BATCH) {
        this.#deps.onEnqueued();
        return { recovered, more: false };
      }
    }
    this.#deps.onEnqueued();
    return { recovered, more: true };
  }

  async #assertEnabled(endpoint: EndpointId): Promise<void> {
    if ((await this.read(endpoint)).disabled) throw new HighwaterError("webhook_disabled");
  }

  /** Works in a transaction that the audit log attributes to the caller. */
  #changeBy<T>(by: string, work: (client: Executor) => Promise<T>): Promise<T> {
    return this.#deps.session().database.transaction(work, { by, reason: null });
  }

  /**
   * The URL in the form in which it is stored. Each delivery checks again, because addresses may
   * change.
   */
  async #checkUrl(text: string): Promise<string> {
    const { allow, resolve, clock } = this.#deps;
    const url = checkUrl(text, allow);
    const limit = new AbortController();
    const cancel = clock.after(RESOLVE_LIMIT_MS, () => {
      limit.abort();
    });
    const over = new Promise<never>((_, reject) => {
      limit.signal.addEventListener("abort", () => {
        reject(new Error("the name was not resolved in time"));
      });
    });
    try {
      await Promise.race([checkedAddresses(url, { allow, resolve, signal: limit.signal }), over]);
      return url.href;
    } catch (cause) {
      if (cause instanceof HighwaterError) throw cause;
      throw new HighwaterError("webhook_url_refused", { detail: "Its host cannot be resolved." }, { cause });
    } finally {
      cancel();
    }
  }
}

function known<T>(found: T | null): T;
function known<T, U>(found: T | null, map: (value: T) => U): U;
function known<T, U>(found: T | null, map?: (value: T) => U): T | U {
  if (found === null) throw new HighwaterError("not_found");
  return map === undefined ? found : map(found);
}

function withoutBody({ body: _body, history: _history, ...delivery }: DeliveryDetails): WebhookDelivery {
  return delivery;
}

/** PostgreSQL's texts have no NUL, and UTF-8 cannot contain half of a surrogate pair. */
function assertStorable(text: string): void {
  if (text.includes("\u0000") || !text.isWellFormed())
    throw new HighwaterError("invalid_request", {
      detail: "/description: contains a character that cannot be stored",
      fields: ["/description: contains a character that cannot be stored"],
    });
}
