// Holds a response of Node's `http`: what the application writes is kept until the gate allows it.
// It takes the place of the response's methods, so that every way out of every framework meets it.
import { type Refusal } from "./scope.ts";

/** The parts of Node's `http.IncomingMessage` that the gate uses. */
export interface NodeRequest {
  /** Calls its listeners. */
  emit: (event: string, ...args: unknown[]) => boolean;
}

/** The parts of Node's `http.ServerResponse` that the gate uses. */
export interface NodeResponse {
  /** Status of the response. */
  statusCode: number;
  /** Reason phrase. */
  statusMessage: string;
  /** Whether the head has left. */
  readonly headersSent: boolean;
  /** Sends the head. */
  writeHead: (...args: never[]) => unknown;
  /** Sends the head now. */
  flushHeaders: () => unknown;
  /** Sends a chunk. */
  write: (...args: never[]) => boolean;
  /** Sends the last chunk. */
  end: (...args: never[]) => unknown;
  /** Names of the headers that are set. */
  getHeaderNames: () => string[];
  /** Unsets a header. */
  removeHeader: (name: string) => unknown;
  /** Cuts the connection. */
  destroy: (error?: Error) => unknown;
  /** Calls its listeners. */
  emit: (event: string, ...args: unknown[]) => boolean;
  /** Adds a listener. */
  once: (event: string, listener: () => void) => unknown;
}

/** What decides about a response. */
export interface Verdicts {
  readonly isBypassed: () => boolean;
  readonly settle: (signal: AbortSignal) => Promise<Refusal | undefined>;
  readonly answer: (refusal: Refusal) => {
    readonly status: number;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
  };
}

type Method = (...args: unknown[]) => unknown;
type Methods = Record<string, Method>;

/** `passing`: for good, past the gate. `cut`: what the application still writes is dropped. */
type State = "held" | "passing" | "open" | "cut";

const HEADER_METHODS = ["setHeader", "setHeaders", "appendHeader", "removeHeader"] as const;

export function holdResponse(response: NodeResponse, verdicts: Verdicts): void {
  new HeldResponse(response, verdicts).begin();
}

class HeldResponse {
  readonly #response: NodeResponse;
  readonly #verdicts: Verdicts;
  readonly #own: Methods = {};
  readonly #closed = new AbortController();
  #state: State = "held";
  /** Arguments of `writeHead`, once the application has begun to respond. */
  #head: readonly unknown[] | undefined;
  /** Whether Node writes the head by itself, with a length if it can. */
  #isImplicit = false;
  #status: readonly [code: number, message: string] = [200, ""];
  #trailers: unknown;
  #isEnded = false;
  #queued = 0;
  #last: Promise<void> = Promise.resolve();
  /** Functions that remove what hides the response's own properties. */
  #shown: (() => void)[] = [];

  constructor(response: NodeResponse, verdicts: Verdicts) {
    this.#response = response;
    this.#verdicts = verdicts;
  }

  begin(): void {
    this.#response.once("close", () => {
      this.#closed.abort();
    });
    this.#replace("writeHead", (args) => this.#writeHead(args));
    this.#replace("flushHeaders", () => {
      this.#enqueue(() => this.#call("flushHeaders"));
    });
    this.#replace("write", (args) => {
      if (this.#isEnded) return this.#call("write", args);
      this.#enqueue(() => this.#call("write", args), args);
      return false;
    });
    this.#replace("end", (args) => {
      if (this.#isEnded) return this.#response;
      this.#enqueue(() => this.#call("end", args), args);
      this.#isEnded = true;
      this.#hide("writableEnded", { get: () => true });
      return this.#response;
    });
    // A hint would leave before the response.
    this.#replace("writeEarlyHints", () => undefined);
    this.#replace("addTrailers", ([trailers]) => {
      this.#trailers = trailers;
    });
  }

  /** Puts the method in place of the response's own, until the gate opens. */
  #replace(name: string, held: (args: unknown[]) => unknown): void {
    const methods = this.#response as unknown as Methods;
    const own = methods[name];
    if (own === undefined) return;
    this.#own[name] = own.bind(this.#response);
    methods[name] = (...args) => {
      if (this.#state === "held" && this.#head === undefined && this.#verdicts.isBypassed())
        this.#state = "passing";
      if (this.#state === "passing") return this.#call(name, args);
      // Node calls these itself while it sends what was held.
      if (this.#isSending) return this.#call(name, args);
      return held(args);
    };
  }

  #isSending = false;

  #call(name: string, args: readonly unknown[] = []): unknown {
    return this.#own[name]?.(...args);
  }

  #writeHead(args: readonly unknown[]): unknown {
    if (this.#head !== undefined) throw sentError("writeHead");
    this.#head = args;
    const { statusCode, statusMessage } = this.#response;
    this.#status = [typeof args[0] === "number" ? args[0] : statusCode, statusMessage];
    this.#hide("headersSent", { get: () => true });
    for (const name of HEADER_METHODS)
      this.#hide(name, {
        value: () => {
          throw sentError(name);
        },
      });
    return this.#response;
  }

  /** Hides a property of the response: to the application its head has left. */
  #hide(name: string, property: PropertyDescriptor): void {
    const before = Object.getOwnPropertyDescriptor(this.#response, name);
    Object.defineProperty(this.#response, name, { ...property, configurable: true });
    this.#shown.push(() => {
      if (before) Object.defineProperty(this.#response, name, before);
      else Reflect.deleteProperty(this.#response, name);
    });
  }

  #enqueue(send: () => unknown, args: readonly unknown[] = []): void {
    if (this.#head === undefined) {
      // As Node does: what others have put around `writeHead` may set headers now.
      this.#isImplicit = true;
      (this.#response as unknown as Methods)["writeHead"]?.(this.#response.statusCode);
    }
    this.#queued += 1;
    this.#last = this.#last.then(() => this.#next(send, args));
  }

  /** Sends one part of the response when the gate allows it. */
  async #next(send: () => unknown, args: readonly unknown[]): Promise<void> {
    const refusal = await this.#ask();
    this.#queued -= 1;
    if (this.#state === "held" && !refusal) this.#open();
    if (this.#state === "cut" || refusal) {
      this.#refuse(refusal);
      const callback = args.findLast((each) => typeof each === "function");
      (callback as (() => void) | undefined)?.();
      return;
    }
    this.#isSending = true;
    try {
      const isTaken = send();
      if (isTaken === true && this.#queued === 0) this.#response.emit("drain");
    } catch {
      this.#refuse(undefined);
    } finally {
      this.#isSending = false;
    }
  }

  async #ask(): Promise<Refusal | undefined> {
    if (this.#state === "cut") return undefined;
    try {
      return await this.#verdicts.settle(this.#closed.signal);
    } catch {
      this.#state = "cut";
      this.#response.destroy();
      return undefined;
    }
  }

  #open(): void {
    this.#state = "open";
    this.#show();
    [this.#response.statusCode, this.#response.statusMessage] = this.#status;
    if (this.#trailers !== undefined) this.#call("addTrailers", [this.#trailers]);
    if (!this.#isImplicit) this.#call("writeHead", this.#head);
  }

  #show(): void {
    for (const show of this.#shown.reverse()) show();
    this.#shown = [];
  }

  #refuse(refusal: Refusal | undefined): void {
    const state = this.#state;
    this.#state = "cut";
    if (state === "cut") return;
    if (state !== "held" || !refusal) {
      // The head has left: the client must not take what it has for the whole.
      this.#response.destroy();
      return;
    }
    this.#show();
    const response = this.#response;
    for (const name of response.getHeaderNames()) response.removeHeader(name);
    const { status, headers, body } = this.#verdicts.answer(refusal);
    response.statusMessage = "";
    this.#isSending = true;
    this.#call("writeHead", [status, headers]);
    this.#call("end", [body]);
    this.#isSending = false;
  }
}

function sentError(name: string): Error {
  const error = new Error(`${name}: the response has begun; the gate holds it`);
  return Object.assign(error, { code: "ERR_HTTP_HEADERS_SENT" });
}
