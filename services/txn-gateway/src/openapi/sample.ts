// The values of the documentation's examples. A test that sends them puts in those of a transaction
// of its own.
import {
  type Marks,
  type OpenTransactionResponse,
  type StatementResult,
  type Ticket,
  type TransactionResponse,
} from "@highwater/protocol";

const EPOCH = "7d0f3b1e-9c1a-4a57-8a3d-5b0f6f2f9d11";

export const SAMPLE = {
  id: "01980f3e-6d2a-7c44-9b1d-3f6a2c8e5d70",
  otherId: "01980f3e-7a91-7d02-8c35-6e1b0f4a9d28",
  token:
    "hw2_AAEBmA8-bSp8RJsdP2osjl1wfQ87HpwaSleKPVsPby-dEQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAwAAuGzh8So0P7x31sxV5J4GltY",
  ticket:
    "hwt1_AQGYDz5tKnxEmx0_aiyOXXB9DzsenBpKV4o9Ww9vL50RQuru7kqQrpUBmA9FUUAAAAAAAAAAAAAAAAAAAAAAQxJ8c2mV0bqvYlT3nR5kWw",
  session: "gateway-1.01980f3e-6d2a-7c44-9b1d-3f6a2c8e5d70.QxJ8c2mV0bqvYlT3nR5kWzEa",
} as const;

export const TICKET: Ticket = {
  id: SAMPLE.id,
  tag: "5d0c9a77-3b1e-8f42-b6a0-917f2ce4d538",
  epoch: EPOCH,
  digest: "4821906673350171925",
  lifeMs: 60_000,
  ticket: SAMPLE.ticket,
};

export const MARKS: Marks = {
  epoch: EPOCH,
  seq: 3,
  levels: { disk: "50331976", region: "50331832", global: "50331832" },
};

export const RESULT: StatementResult = {
  command: "UPDATE",
  rowCount: 1,
  fields: [{ name: "balance", oid: 23 }],
  rows: [["90"]],
};

export const COMMITTED: TransactionResponse = {
  id: SAMPLE.id,
  state: "committed",
  token: SAMPLE.token,
  position: { epoch: EPOCH, offset: "50331976" },
  results: [RESULT],
  marks: MARKS,
  announced: true,
};

export const OPEN: OpenTransactionResponse = {
  id: SAMPLE.id,
  state: "active",
  seq: 0,
  results: [],
  expiresAt: "2026-11-21T10:15:10.000Z",
  marks: MARKS,
};

export const UPDATE = {
  sql: "UPDATE account SET balance = balance - $1 WHERE id = $2 RETURNING balance",
  params: [10, 1],
};
