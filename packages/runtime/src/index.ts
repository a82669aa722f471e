// What lies under every other package: time, chance, and lines of text.
export { type Clock, sleep } from "./clock.ts";
export { type Buckets, quantileBetween } from "./quantile.ts";
export { realClock, realRandom } from "./runtime.ts";
export { wrapText } from "./text.ts";
