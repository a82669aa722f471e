// Webhooks: who is told of what over HTTP, and that nobody misses anything.
export { type Resolve } from "./address.ts";
export { resolveName } from "./resolve.ts";
export { ABOUT_WEBHOOKS, WEBHOOK_DEFAULTS, WEBHOOK_SETTINGS, type WebhookSettings } from "./settings.ts";
export { type Wants, Webhooks, type WebhooksDeps } from "./webhooks.ts";
