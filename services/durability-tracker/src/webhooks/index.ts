// Webhooks: decides which endpoints get which events, and delivers every one of them.
export { type Resolve } from "./address.ts";
export { resolveName } from "./resolve.ts";
export { WEBHOOK_DEFAULTS, type WebhookSettings } from "./settings.ts";
export { type Wants, Webhooks } from "./webhooks.ts";
