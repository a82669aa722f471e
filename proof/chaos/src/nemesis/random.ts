// The nemesis's random numbers: those of a workload, and also times and orders.
import { Random as Chance } from "../workload/random.ts";

export class Random extends Chance {
  between(min: number, max: number): number {
    return min + this.next() * (max - min);
  }

  shuffle<T>(values: readonly T[]): T[] {
    const left = [...values];
    const shuffled: T[] = [];
    while (left.length > 0) shuffled.push(...left.splice(this.below(left.length), 1));
    return shuffled;
  }
}
