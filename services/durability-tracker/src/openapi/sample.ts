// The values of the documentation's examples. A test that sends them replaces them by those of its
// own transaction.
export const SAMPLE = {
  id: "01980f3e-6d2a-7c44-9b1d-3f6a2c8e5d70",
  epoch: "7d0f3b1e-9c1a-4a57-8a3d-5b0f6f2f9d11",
  token:
    "hw2_AAEBmA8-bSp8RJsdP2osjl1wfQ87HpwaSleKPVsPby-dEQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAwAAuGzh8So0P7x31sxV5J4GltY",
  webhook: "wh_sample",
  delivery: "msg_sample",
  url: "https://hooks.example.com/highwater",
} as const;

export const MARKS = {
  epoch: SAMPLE.epoch,
  seq: 3,
  levels: { disk: "50331976", region: "50331832", global: "50331832" },
};

export const VERDICT = {
  token: SAMPLE.token,
  id: SAMPLE.id,
  verdict: "durable",
  level: "region",
  position: { epoch: SAMPLE.epoch, offset: "50331832" },
  rule: "mark_passed",
} as const;
