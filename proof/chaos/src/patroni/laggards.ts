// Failures after which Patroni, with these settings, promotes a standby that lacks transactions
// which another one had acknowledged.
import { setTimeout as pause } from "node:timers/promises";
import { type PatroniFault } from "./faults.ts";

/** Long enough for the other standby to acknowledge transactions. */
const STARVED_MS = 1_500;

export const LAGGARD_FAULTS: readonly PatroniFault[] = [
  {
    kind: "kill_leader_and_acknowledging_standby",
    oneIn: 1,
    run: async ({ system, random, leader, standbys, aim }) => {
      const laggard = random.pick(standbys);
      const fed = standbys.filter((id) => id !== laggard);
      aim([leader, ...fed].join(", "));
      const { patroni } = system;
      await patroni.starve(laggard, leader);
      await pause(STARVED_MS);
      await Promise.all([leader, ...fed].map((id) => patroni.kill(id)));
      await patroni.revokeLease();
      const untilMs = performance.now() + 25_000;
      while ((await patroni.leader()) !== laggard && performance.now() < untilMs) await pause(100);
    },
  },
];
