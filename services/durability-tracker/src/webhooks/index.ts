// Webhooks: who gets what over HTTP, and that no receiver misses anything.
export { type Resolve } from "./address.ts";
export { resolveName } from "./resolve.ts";
export { WEBHOOK_DEFAULTS, type WebhookSettings } from "./settings.ts";
export { type Wants, Webhooks } from "./webhooks.ts";
