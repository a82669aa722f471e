// What lies under every other package: time and chance.
export { type Clock, sleep } from "./clock.ts";
export { realClock, realRandom } from "./runtime.ts";
