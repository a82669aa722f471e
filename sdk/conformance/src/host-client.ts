// Starts the real system in a process of its own, and gives it commands.
import { fileURLToPath } from "node:url";
import { type Description } from "../system/site.ts";
import { LineProcess } from "./line-process.ts";

const HOST = fileURLToPath(new URL("../host.ts", import.meta.url));

export class Host implements AsyncDisposable {
  readonly #process: LineProcess;
  readonly #control: string;

  private constructor(process: LineProcess, control: string) {
    this.#process = process;
    this.#control = control;
  }

  /** `env`: settings of gateways and trackers. */
  static async start(env: Readonly<Record<string, string>> = {}): Promise<Host> {
    const child = new LineProcess("the host", [process.execPath, HOST], env);
    const { control } = (await child.read()) as { control: string };
    return new Host(child, control);
  }

  async describe(): Promise<Description> {
    return (await (await fetch(this.#control)).json()) as Description;
  }

  /** Resolves when it is done. */
  async command(name: string, body: Readonly<Record<string, unknown>> = {}): Promise<unknown> {
    const response = await fetch(`${this.#control}/${name}`, { method: "POST", body: JSON.stringify(body) });
    const answer: unknown = await response.json();
    if (!response.ok) throw new Error(`${name}: ${(answer as { error: string }).error}`);
    return answer;
  }

  close(): Promise<number | null> {
    return this.#process.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
