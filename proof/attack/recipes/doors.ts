// Ways in that are not for strangers.
import { newId } from "../caller.ts";
import { type Recipe } from "../recipe.ts";

const REVOKED_WITHIN_MS = 30_000;

export const DOORS: readonly Recipe[] = [
  {
    item: "14",
    title: "a key announces to a tracker as if it were a gateway",
    run: async ({ writer, reader }) => {
      const batch = {
        gateway: "mallory",
        announcements: [{ kind: "intent", id: newId(), epoch: newId() }],
      };
      for (const caller of [writer, reader]) {
        const { status } = await caller.send("tracker", "/internal/announcements", batch);
        if (status !== 403 && status !== 401) return `answered ${String(status)}`;
      }
      return null;
    },
  },
  {
    item: "15",
    title: "a stream outlives the revocation of its key",
    run: async (target) => {
      const key = await target.system.createKey({
        name: "short",
        owner: "acme",
        role: "acme_read",
        scopes: ["read"],
      });
      const url = target.system.tracker(target.system.regions[0] ?? "").url;
      const limit = new AbortController();
      const response = await fetch(`${url}/v1/durability/stream`, {
        headers: { authorization: `Bearer ${key}` },
        signal: limit.signal,
      });
      if (response.status !== 200) return `a new key is answered ${String(response.status)}`;
      await target.system.revokeKey(key);
      const timer = setTimeout(() => {
        limit.abort();
      }, REVOKED_WITHIN_MS);
      const reader = response.body?.getReader();
      try {
        while ((await reader?.read())?.done === false);
      } catch {
        // The tracker should cut it off; the limit must not have to.
      } finally {
        clearTimeout(timer);
      }
      return limit.signal.aborted ? `it is open ${String(REVOKED_WITHIN_MS)} ms later` : null;
    },
  },
];
