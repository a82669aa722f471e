// What the output gates use of `node:async_hooks`. The package's build has no types of Node, so
// that nothing else of it is used by mistake.
export declare class AsyncLocalStorage<T> {
  run<R>(store: T, callback: () => R): R;
  getStore(): T | undefined;
}
