// What operators read at a tracker beside events: the API keys, without anything secret, and the
// limits of exposure, which gateways report to it.
import Type, { type Static } from "typebox";
import { about, closed, texts } from "./schema-helpers.ts";
import { OnLost } from "./redo.ts";
import { LevelName } from "./schemas.ts";

export const OPERATOR_LIMITS = {
  /** The newest. */
  keysListed: 1_000,
  /** Of one gateway. */
  limitsReported: 32,
} as const;

const Instant = Type.String({ description: "RFC 3339." });
const InstantOrNull = Type.Union([Instant, Type.Null()]);
const GatewayName = Type.String({ minLength: 1, maxLength: 128 });
const Region = Type.String({ minLength: 1, maxLength: 63, description: "The gateway's region." });

export const DescribedKey = Type.Object(
  {
    id: Type.String({ description: "The part of the key's text between `hwk_` and the secret." }),
    state: texts(["active", "expired", "revoked"], "By the clock of the service that answers."),
    name: Type.String(),
    owner: Type.String({ description: "Keys of one owner see each other's transactions." }),
    role: Type.String({ description: "The database's login role." }),
    scopes: Type.Array(texts(["read", "write", "webhooks", "admin", "contents:read", "contents:replay"])),
    limits: Type.Record(Type.String(), Type.Number(), {
      description: "The key's own limits. For all others the service's defaults apply.",
    }),
    minLevel: Type.Optional(about(LevelName, "The minimum level of the key's commits. Absent: any level.")),
    onLost: Type.Optional(about(OnLost, "For the key's writes. Absent: what each request says.")),
    createdAt: Instant,
    expiresAt: InstantOrNull,
    revokedAt: InstantOrNull,
  },
  { ...closed, description: "An API key. Its secret is only with its holder." },
);
export type DescribedKey = Static<typeof DescribedKey>;

export const KeyList = Type.Object(
  {
    keys: Type.Array(DescribedKey, {
      description: `Newest first, at most ${String(OPERATOR_LIMITS.keysListed)}.`,
    }),
    total: Type.Integer({ minimum: 0, description: "Number of keys that there are." }),
  },
  closed,
);
export type KeyList = Static<typeof KeyList>;

export const ReportedLimit = Type.Object(
  {
    name: Type.String({
      pattern: "^[a-zA-Z]{1,63}$",
      description: "As in `limit.name` of `exposure_limit`.",
    }),
    value: Type.Number({ minimum: 0, description: "As it is configured." }),
    bound: Type.Number({
      minimum: 0,
      description:
        "From here on the gateway refuses fast transactions. Lower than `value` while it keeps to its share.",
    }),
    used: Type.Number({
      minimum: 0,
      description:
        "The amount that counts toward it now. Of a limit per key: of the owner that is nearest to it.",
    }),
  },
  closed,
);
export type ReportedLimit = Static<typeof ReportedLimit>;

/** A gateway sends this to every tracker, every few seconds. */
export const ExposureLimitsReport = Type.Object(
  {
    gateway: GatewayName,
    region: Region,
    level: LevelName,
    limits: Type.Array(ReportedLimit, { maxItems: OPERATOR_LIMITS.limitsReported }),
    commitMs: Type.Optional(
      Type.Union([Type.Number({ minimum: 0 }), Type.Null()], {
        description:
          "Median time of the fast writes that the gateway committed since its last report, in milliseconds. Null: it committed none. Absent from gateways of an older version.",
      }),
    ),
  },
  closed,
);
export type ExposureLimitsReport = Static<typeof ExposureLimitsReport>;

const GatewayLimits = Type.Object(
  {
    ...ExposureLimitsReport.properties,
    ageMs: Type.Integer({ minimum: 0, description: "Milliseconds since the gateway reported this." }),
  },
  closed,
);

export const ExposureLimits = Type.Object(
  {
    gateways: Type.Array(GatewayLimits, {
      description: "Those that have reported to this tracker in the last minute, by name.",
    }),
  },
  closed,
);
export type ExposureLimits = Static<typeof ExposureLimits>;
