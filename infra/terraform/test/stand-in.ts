// A stand-in for AWS on loopback (moto's server), and what has to be in the account before an example is applied. Its limits are
// written beside the overrides in `stand-in/`, which are laid over the copy of the modules, and over nothing else.
import { type ChildProcess } from "node:child_process";
import { cpSync, existsSync, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { endGuarded, spawnGuarded } from "@highwater/lab-tools/process";

/** `make .tools/infra/.installed` makes it. */
const OWN = fileURLToPath(new URL("../../../.tools/infra/bin/moto_server", import.meta.url));
const OVERRIDES = fileURLToPath(new URL("stand-in", import.meta.url));
const START_LIMIT_MS = 120_000;

export function whyNoStandIn(): string | false {
  if (findServer() !== null) return false;
  return "no stand-in for AWS: make .tools/infra/.installed brings moto_server from PyPI, and it is not on PATH either";
}

function findServer(): string | null {
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  return (
    [OWN, ...folders.map((folder) => join(folder, "moto_server"))].find((path) => existsSync(path)) ?? null
  );
}

/** Lays the overrides over the copy in `folder`. */
export function layOverrides(folder: string): void {
  for (const name of readdirSync(OVERRIDES)) {
    const kind = existsSync(join(folder, "modules", name)) ? "modules" : "examples";
    cpSync(join(OVERRIDES, name), join(folder, kind, name), { recursive: true });
  }
}

export class StandIn {
  readonly url: string;
  readonly #child: ChildProcess;

  private constructor(url: string, child: ChildProcess) {
    this.url = url;
    this.#child = child;
  }

  static async start(): Promise<StandIn> {
    const program = findServer();
    if (program === null) throw new Error(String(whyNoStandIn()));
    // Policies of AWS's own, which roles are attached to.
    const settings = ["env", "MOTO_IAM_LOAD_MANAGED_POLICIES=true"] as const;
    const child = spawnGuarded([...settings, program, "-H", "127.0.0.1", "-p", "0"], { stderr: "pipe" });
    return new StandIn(await addressOf(child), child);
  }

  /** What Terraform's provider has to know to come here. */
  get env(): Record<string, string> {
    return { AWS_ENDPOINT_URL: this.url };
  }

  /** A public hosted zone; its id. */
  async makeZone(name: string): Promise<string> {
    const answer = await this.#ask("route53", "/2013-04-01/hostedzone", {
      headers: { "content-type": "application/xml", host: "route53.amazonaws.com" },
      body: `<?xml version="1.0"?><CreateHostedZoneRequest xmlns="https://route53.amazonaws.com/doc/2013-04-01/"><Name>${name}</Name><CallerReference>test</CallerReference></CreateHostedZoneRequest>`,
    });
    const id = /<Id>\/hostedzone\/([A-Z0-9]+)<\/Id>/.exec(answer)?.[1];
    if (id === undefined) throw new Error(`no hosted zone: ${answer}`);
    return id;
  }

  /** The value of a secret, as the stand-in holds it. */
  async readSecret(name: string): Promise<string> {
    const answer = await this.#ask("secretsmanager", "/", {
      headers: {
        "content-type": "application/x-amz-json-1.1",
        "x-amz-target": "secretsmanager.GetSecretValue",
      },
      body: JSON.stringify({ SecretId: name }),
    });
    return (JSON.parse(answer) as { SecretString: string }).SecretString;
  }

  /** What an operator does by hand at RDS. */
  async callRds(region: string, api: string, parameters: Readonly<Record<string, string>>): Promise<string> {
    return this.#ask("rds", "/", {
      headers: { "content-type": "application/x-www-form-urlencoded", host: `rds.${region}.amazonaws.com` },
      body: new URLSearchParams({ Action: api, Version: "2014-10-31", ...parameters }).toString(),
      region,
    });
  }

  async #ask(
    service: string,
    path: string,
    request: { headers: Record<string, string>; body: string; region?: string },
  ): Promise<string> {
    const scope = `testing/20260101/${request.region ?? "us-east-1"}/${service}/aws4_request`;
    const response = await fetch(new URL(path, this.url), {
      method: "POST",
      headers: {
        ...request.headers,
        authorization: `AWS4-HMAC-SHA256 Credential=${scope}, SignedHeaders=host, Signature=0`,
      },
      body: request.body,
      signal: AbortSignal.timeout(START_LIMIT_MS),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${service} ${String(response.status)}: ${text.slice(0, 500)}`);
    return text;
  }

  stop(): Promise<void> {
    return endGuarded(this.#child);
  }
}

async function addressOf(child: ChildProcess): Promise<string> {
  const { stderr } = child;
  if (stderr === null) throw new Error("the stand-in has no output");
  const lines = createInterface(stderr);
  const said: string[] = [];
  try {
    return await new Promise<string>((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new Error(`the stand-in did not start: ${said.join("\n")}`));
      }, START_LIMIT_MS);
      child.once("exit", (code) => {
        reject(new Error(`the stand-in ended with ${String(code)}: ${said.join("\n")}`));
      });
      lines.on("line", (line) => {
        if (said.length < 20) said.push(line);
        const url = /Running on (http:\/\/127\.0\.0\.1:\d+)/.exec(line)?.[1];
        if (url === undefined) return;
        clearTimeout(timer);
        resolve(url);
      });
    });
  } finally {
    // It goes on to print every request. No one reads that, and its pipe must not fill.
    lines.close();
    stderr.resume();
  }
}
