// Webhooks: who is told of what over HTTP, and that nobody misses anything.
export { type Resolve } from "./address.ts";
export { resolveName } from "./resolve.ts";
export { WEBHOOK_DEFAULTS, type WebhookSettings } from "./settings.ts";
export { type Wants, Webhooks } from "./webhooks.ts";
