import { type EpochId } from "@highwater/protocol";
import { eventConformance } from "../src/conformance/events.ts";
import { MemoryEventLog, MemoryEvents } from "../src/memory/events.ts";

eventConformance("memory", () => {
  const log = new MemoryEventLog("e1" as EpochId);
  return Promise.resolve({
    stores: [new MemoryEvents(log), new MemoryEvents(log)],
    node: "east",
    epoch: log.epoch,
    nextEpoch: () => {
      log.begin("e2" as EpochId);
      return Promise.resolve(log.epoch);
    },
    age: (ms) => {
      log.nowMs += ms;
      return Promise.resolve();
    },
    nowMs: () => log.nowMs,
    close: () => Promise.resolve(),
  });
});
