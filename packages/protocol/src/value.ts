// How much a transaction is worth to its application: an exact decimal and a unit. Sums are whole
// numbers of billionths, so they never drift.
import Type, { type Static } from "typebox";
import { closed } from "./schema-helpers.ts";

const DECIMALS = 9;
const AMOUNT = "(0|[1-9][0-9]{0,17})([.][0-9]{1,9})?";
const UNIT = "[A-Za-z]{1,16}";

export const Unit = Type.String({
  pattern: `^${UNIT}$`,
  description: "A currency's code, or any other word of at most 16 letters.",
});

export const AmountText = Type.String({
  pattern: "^(0|[1-9][0-9]{0,24})([.][0-9]{1,9})?$",
  description: "An exact decimal number, as text.",
});

/** As clients send it. */
export const ValueAtRisk = Type.Object(
  {
    amount: Type.String({
      pattern: `^${AMOUNT}$`,
      description: "An exact decimal number, as text: at most 18 digits before the point and 9 behind it.",
    }),
    unit: Unit,
  },
  {
    ...closed,
    description:
      "The loss of the application if a failure discards the transaction after its commit was answered. It counts toward the limits of its unit until the transaction is durable at the exposure level. A transaction with `ack: durable` has nothing at risk.",
  },
);
export type ValueAtRisk = Static<typeof ValueAtRisk>;

/** The same in an announcement and on a tracker's disk: `12.50 EUR`. */
export const AtRiskText = Type.String({ pattern: `^${AMOUNT} ${UNIT}$` });

export interface Value {
  /** In billionths. */
  readonly amount: bigint;
  readonly unit: string;
}

const AT_RISK = new RegExp(`^(${AMOUNT}) (${UNIT})$`);

/** Undefined: it is none. */
export function parseAtRisk(text: string): ValueAtRisk | undefined {
  const [, amount, , , unit] = AT_RISK.exec(text) ?? [];
  return amount === undefined || unit === undefined ? undefined : { amount, unit };
}

/** Of texts that the schemas have accepted. */
export function valueOf({ amount, unit }: ValueAtRisk): Value {
  return { amount: parseAmount(amount), unit };
}

export function parseAmount(text: string): bigint {
  const [whole = "0", fraction = ""] = text.split(".");
  return BigInt(whole + fraction.padEnd(DECIMALS, "0"));
}

export function formatAmount(amount: bigint): string {
  const digits = amount.toString().padStart(DECIMALS + 1, "0");
  const fraction = digits.slice(-DECIMALS).replace(/0+$/, "");
  return digits.slice(0, -DECIMALS) + (fraction === "" ? "" : `.${fraction}`);
}

/** For measurements, which are no promise. */
export function roughAmount(amount: bigint): number {
  return Number(formatAmount(amount));
}
