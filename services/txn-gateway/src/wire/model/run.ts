// Joins adjacent frames that are passed on into one slice of the bytes that contained them.
export class Run {
  readonly #emit: (bytes: Buffer) => void;
  #bytes: Buffer | null = null;
  #start = 0;
  #end = 0;

  constructor(emit: (bytes: Buffer) => void) {
    this.#emit = emit;
  }

  add(bytes: Buffer, start: number, end: number): void {
    if (this.#bytes === bytes && this.#end === start) {
      this.#end = end;
      return;
    }
    this.flush();
    this.#bytes = bytes;
    this.#start = start;
    this.#end = end;
  }

  flush(): void {
    const bytes = this.#bytes;
    if (bytes === null) return;
    this.#bytes = null;
    const isAll = this.#start === 0 && this.#end === bytes.length;
    this.#emit(isAll ? bytes : bytes.subarray(this.#start, this.#end));
  }
}
