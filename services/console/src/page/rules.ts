// What each rule of a verdict means. The rules are those of the tracker's SPEC.md; a test compares.
const RULES: Readonly<Record<string, string>> = {
  "R1 mark": "The level's mark has reached the transaction's position in the current epoch.",
  "R2 was durable": "It was durable at this level in an earlier epoch.",
  "R3 carried over":
    "The current epoch contains it, and the level's mark has passed the position at which it continues there.",
  "R4 waiting": "The level's mark has not reached its position yet.",
  "R5 being proven":
    "Its epoch has ended. The proof of what became of it is not complete, or not reported yet.",
  "R6 absent":
    "The current history does not contain it, and its id can never commit. The level had never had it.",
  "R7 broken":
    "The level had it and promised to survive the failure that discarded it. Its id can never commit.",
  "R8 reappeared": "It was reported lost, and the current history contains it.",
  "R9 expired": "Its receipt is not kept any more, so its outcome can no longer be proven.",
  "R10 unknown epoch": "This tracker does not know its epoch yet.",
  "R10 unknown id": "There can be no receipt of it.",
  "R11 no receipt":
    "Its token names a position alone, and that position is neither carried over nor known to be kept.",
  refused: "The tracker does not judge this token for this key.",
};

export function explainRule(rule: string): string {
  return RULES[rule] ?? `Rule ${rule}`;
}

export function hasExplanation(rule: string): boolean {
  return rule in RULES;
}
