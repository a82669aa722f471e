// What alerts about the objectives say: budgets that burn.
import { type Cases, GATEWAY, type Series } from "./cases.ts";

const durabilityOf = (all: string, inTime: string): Series => ({
  [`highwater_gateway_durability_lag_seconds_count{level="region",${GATEWAY}}`]: all,
  [`highwater_gateway_durability_lag_seconds_bucket{level="region",le="1",${GATEWAY}}`]: inTime,
});

export const sloCases: Readonly<Record<string, Cases>> = {
  HighwaterSloBurnsFast: {
    step: "1m",
    fires: [
      {
        // A fifth of the writes takes longer than a second: 20 times of what may.
        series: durabilityOf("0+600x130", "0+480x130"),
        ...{ at: "2h", labels: { severity: "page", slo: "durability" } },
        summary: "The error budget of durability burns 20 times as fast as it may",
      },
    ],
    silent: [
      {
        why: "half of what may",
        series: durabilityOf("0+4000x130", "0+3980x130"),
        at: ["10m", "1h", "2h"],
      },
      {
        why: "it was bad for twenty minutes, and is over: the short windows say so",
        series: durabilityOf("0+600x130", "0+400x20 8600+600x110"),
        at: ["1h", "2h"],
      },
      {
        why: "a slow request at night is half of all that there was",
        series: durabilityOf("0x10 2x120", "0x10 1x120"),
        at: ["12m", "15m", "1h"],
      },
      { why: "no traffic at all", series: durabilityOf("900x130", "900x130"), at: ["10m", "2h"] },
    ],
  },
  HighwaterSloBurnsSlowly: {
    step: "4m",
    fires: [
      {
        // 4% of the writes for more than a day.
        series: durabilityOf("0+2400x430", "0+2304x430"),
        ...{ at: "28h", labels: { severity: "ticket", slo: "durability" } },
        summary: "The error budget of durability burns 4.0 times as fast as it may",
      },
    ],
    silent: [
      {
        why: "half an hour without anything in time, a day ago: it is over",
        series: durabilityOf("0+2400x430", "0+2400x75 180000x7 182400+2400x350"),
        at: ["28h"],
      },
    ],
  },
};
