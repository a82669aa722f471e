// The request for a preview that the command sends to trackers, and the response.
import Type, { type Static } from "typebox";
import { LevelName, OffsetText, Uuid } from "@highwater/protocol";

const closed = { additionalProperties: false } as const;

export const PREVIEW_LIMITS = { candidates: 64, ids: 1_000 } as const;

const NodeName = Type.String({ minLength: 1, maxLength: 63 });

export const FailoverPreviewRequest = Type.Object(
  {
    epoch: Type.String({ ...Uuid, description: "The epoch that the offsets are of." }),
    candidates: Type.Array(
      Type.Object(
        {
          node: NodeName,
          offset: Type.String({
            ...OffsetText,
            description: "The end of what it has on disk of that epoch.",
          }),
        },
        closed,
      ),
      { minItems: 1, maxItems: PREVIEW_LIMITS.candidates },
    ),
    list: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: PREVIEW_LIMITS.ids,
        description: "How many ids to name for each candidate.",
      }),
    ),
  },
  closed,
);
export type FailoverPreviewRequest = Static<typeof FailoverPreviewRequest>;

/**
 * Everything of the epoch above `from`, up to `to`, was promised by the level, and is not on the
 * candidate.
 */
export const PromiseAtStake = Type.Object({ level: LevelName, from: OffsetText, to: OffsetText }, closed);
export type PromiseAtStake = Static<typeof PromiseAtStake>;

export const CandidatePreview = Type.Object(
  {
    node: NodeName,
    offset: OffsetText,
    bytes: Type.String({
      ...OffsetText,
      description: "Of log between the offset and the end of the epoch's log as far as the tracker knows it.",
    }),
    promises: Type.Array(PromiseAtStake, {
      description:
        "Levels whose published mark is above the offset and that survive a change of the primary.",
    }),
    transactions: Type.Integer({ minimum: 0, description: "Writes that the ledger holds above the offset." }),
    complete: Type.Boolean({
      description:
        "False when others above the offset may have left the ledger: some level had reached them.",
    }),
    ids: Type.Array(Uuid, { description: "The first of the transactions, lowest offset first." }),
  },
  closed,
);
export type CandidatePreview = Static<typeof CandidatePreview>;

export const FailoverPreview = Type.Object(
  {
    epoch: Uuid,
    follows: Type.Boolean({
      description: "The epoch is the one that the tracker follows; of others it cannot name transactions.",
    }),
    end: Type.Union([OffsetText, Type.Null()], {
      description: "The highest offset of the epoch that the tracker has seen.",
    }),
    marks: Type.Record(LevelName, OffsetText),
    nodes: Type.Array(Type.Object({ node: NodeName, position: OffsetText }, closed), {
      description:
        "The position that the tracker has counted of each node in the epoch; a node without one is left out.",
    }),
    undecided: Type.Integer({
      minimum: 0,
      description: "Announced before their commit, and nothing is known of how they ended.",
    }),
    candidates: Type.Array(CandidatePreview),
  },
  closed,
);
export type FailoverPreview = Static<typeof FailoverPreview>;
