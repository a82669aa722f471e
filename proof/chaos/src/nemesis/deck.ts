// Which scenario is next. Cards are drawn from a shuffled deck, so that every run meets most kinds
// and none twice before the others; chance alone would leave some out for ten minutes.
import { type Random } from "./random.ts";

export interface Card {
  readonly kind: string;
  /**
   * In one deck of so many, for what would make the rest of the run say little: 1 is every deck.
   */
  readonly oneIn: number;
}

export class Deck<T extends Card> {
  readonly #cards: readonly T[];
  readonly #random: Random;
  /** For each rare card, in which deck of its round it is. */
  readonly #turns = new Map<T, number>();
  #left: T[] = [];
  #decks = 0;

  constructor(cards: readonly T[], random: Random) {
    if (cards.length === 0) throw new Error("a deck needs cards");
    this.#cards = cards;
    this.#random = random;
    for (const card of cards)
      if (card.oneIn > 1) this.#turns.set(card, Math.floor(random.next() * card.oneIn));
  }

  draw(): T {
    for (;;) {
      const next = this.#left.shift();
      if (next !== undefined) return next;
      const at = this.#decks++;
      const due = this.#cards.filter((card) => at % card.oneIn === (this.#turns.get(card) ?? 0));
      this.#left = this.#random.shuffle(due);
    }
  }
}
