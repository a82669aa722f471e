// The rules of prose: words that the glossary replaced, and style. A rule sees one sentence without
// its code, so names in code pass.

interface Rule {
  readonly find: RegExp;
  readonly write: string;
  /**
   * A sentence that breaks the rule, and the same statement as it should read; the test of the
   * linter uses both.
   */
  readonly example: readonly [wrong: string, right: string];
}

export const WORDS = {
  reign: {
    find: /\breign(?:s|ed|ing)?\b|\btenures?\b/i,
    write: "epoch, current epoch, is the primary; a lease has a term",
    example: ["The epoch that reigns is newer.", "The current epoch is newer."],
  },
  told: {
    find: /(?<!\bhow to )\b(?:told|untold|tells?|telling)\b(?!(?:\s+\w+){0,4}\s+apart\b)/i,
    write: "reported, published, returns, says, knows",
    example: [
      "The client is told of it.",
      "The tracker reports it. Two words tell them apart, and this is how to tell.",
    ],
  },
  heard: {
    find: /\b(?:hears?|heard|hearing)\b/i,
    write: "learned, received, observed",
    example: ["No tracker has heard of it.", "No tracker has received it."],
  },
  word: {
    find: /(?:'s|s'|\b(?:its|their|own)) words? (?:about|on|of)\b|\b(?:first|last|no|a) word (?:about|on)\b|\bwords of (?:the )?other trackers\b/i,
    write: "report; of another tracker: peer verdict",
    example: ["It is a node's word about itself.", "It is a node's report; the word of the API is `ack`."],
  },
  nudge: {
    find: /\bnudg(?:e[sd]?|ing)\b/i,
    write: "wake",
    example: ["A commit nudges the poller.", "A commit wakes the poller."],
  },
  adrift: {
    find: /\badrift\b/i,
    write: "unplaced",
    example: ["The token is adrift.", "The token is unplaced, or in code `adrift`."],
  },
  desk: {
    find: /\bdesks?\b/i,
    write: "service",
    example: ["The desk answers.", "The service answers."],
  },
  manner: {
    find: /\bmanners?\b/i,
    write: "execution options, way",
    example: ["It runs in this manner.", "It runs in this way."],
  },
  letter: {
    find: /(?<!\bwith )\b(?:a|the|each|every|one|second|first|owed|sends?|sent|sending) letters?\b(?! (?:of|or|in|outside|and)\b)|\bletters? (?:is|are|was|were|goes|go|went) (?:out|sent|owed)\b/i,
    write: "e-mail",
    example: ["The letter was sent.", "The e-mail was sent. Names begin with a letter of the alphabet."],
  },
  fate: {
    find: /\bfates?\b/i,
    write: "verdict, outcome",
    example: ["Its fate is open.", "Its outcome is unknown."],
  },
  gone: {
    find: /(?<!\bof (?:\w+ ){1,2})\b(?:transaction|attempt|commit|write|promise|payment)s? (?:is|are|was|were) gone\b/i,
    write: "lost",
    example: [
      "The transaction is gone.",
      "The transaction is lost, and the gateway of a transaction is gone.",
    ],
  },
  book: {
    find: /\b(?:tracker|client|watcher|service|sdk)'s book\b|\bbook of (?:pending|promises)\b/i,
    write: "pending set",
    example: ["The client's book grows.", "The client's pending set grows."],
  },
  place: {
    find: /\b(?:transaction|attempt|receipt|commit|promise|token)'s place\b|(?<!\bin )\bplaces? (?:in|of) (?:the|an?|its) (?:log|epoch|history|transaction|attempt|promise)\b/i,
    write: "position",
    example: ["The attempt's place is known.", "The attempt's position takes the place of the token."],
  },
  whoever: {
    find: /\bwho(?:m)?ever\b/i,
    write: "the actor: a client that, an operator who",
    example: ["Whoever reads it waits.", "A client that reads it waits."],
  },
  nobody: {
    find: /\bnobody(?:'s)?\b/i,
    write: "no client, no tracker, no one",
    example: ["Nobody waits for it.", "No client waits for it."],
  },
  ofWhich: {
    find: /(?<!\b(?:any|each|all|both|none|either|neither|some|most) )\bof which\b/i,
    write: "two sentences, or whose",
    example: [
      "There are two, of which one is read.",
      "There are two. One is read. There are names, any of which will do.",
    ],
  },
  unlessGiven: {
    find: /\bunless (?:given|(?:another|it|one|they) (?:is|are) given)\b(?! up\b)/i,
    write: "default: …",
    example: ["It is 5 s unless given.", "Default: 5 s."],
  },
} as const satisfies Record<string, Rule>;

/** What a sentence is like. `subject` and `long` do not apply where a noun phrase may stand. */
const STYLE = {
  subject: {
    find: /^(?:What|Who|Whoever|Whatever)\b(?!.*[?:]\W*$)/,
    write: "the subject by its name; no sentence opens with a subject clause",
    example: [
      "The log ends. What lies above it, is lost.",
      "The log ends. The rows above it are lost. What now?",
    ],
  },
  long: {
    find: /^(?:\S+ ){40}\S/,
    write: "two sentences; one has at most 40 words",
    example: [`${"a word ".repeat(20)}and one.`, `${"a word ".repeat(19)}and one.`],
  },
} as const satisfies Record<string, Rule>;

export const RULES = { ...WORDS, ...STYLE };

/** The formatter leaves comments and these pages alone, so their width is a rule of ours. */
export const COLUMNS = 100;
