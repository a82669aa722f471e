// Gives scenarios exclusive use of resources, first come, first served.

export type Resource = "network" | "services";

export class Turns {
  readonly #last = new Map<Resource, Promise<void>>();

  /**
   * Takes the resources one by one, always in the same order, so that two scenarios cannot block
   * each other.
   */
  async with<T>(resources: readonly Resource[], body: () => Promise<T>): Promise<T> {
    const releases: (() => void)[] = [];
    try {
      for (const resource of [...resources].sort()) {
        const before = this.#last.get(resource) ?? Promise.resolve();
        const held = new Promise<void>((resolve) => {
          releases.push(resolve);
        });
        this.#last.set(
          resource,
          before.then(() => held),
        );
        await before;
      }
      return await body();
    } finally {
      for (const release of releases) release();
    }
  }
}
