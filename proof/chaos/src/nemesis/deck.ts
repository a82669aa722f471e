// Chooses the next scenario. Cards come from a shuffled deck, so that no kind repeats before the
// others had their turn: chance alone would leave some out for ten minutes.
import { type Random } from "./random.ts";

export interface Card {
  readonly kind: string;
  /**
   * The card is in one of so many decks (1: in all), for scenarios that make the rest prove little.
   */
  readonly oneIn: number;
}

export class Deck<T extends Card> {
  readonly #cards: readonly T[];
  readonly #random: Random;
  /** For each rare card: which deck of its round contains it. */
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
