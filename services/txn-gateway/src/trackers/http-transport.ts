// HTTP to trackers and other gateways over kept-alive connections. Node's own client: an
// announcement costs half of what `fetch` takes.
import {
  Agent as HttpAgent,
  type ClientRequest,
  type IncomingMessage,
  request as httpRequest,
} from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { explainTls, internalCredential } from "@highwater/service";
import { type HttpReply, type HttpStream, type ServiceTransport } from "../deps.ts";

/** Answers of services are small; a larger one is not from a service. */
const MAX_ANSWER_BYTES = 16 * 1_048_576;
/** A stream's head comes at once or not at all. */
const OPEN_TIMEOUT_MS = 5_000;

interface Call {
  readonly method: "GET" | "POST";
  readonly headers: Readonly<Record<string, string | number>>;
  /** A stream holds its connection for life: it must not take one of the agent's places. */
  readonly stream: boolean;
  readonly signal: AbortSignal;
  readonly body?: string;
}

export interface HttpTransportOptions {
  /** By it services know the gateway; null where they ask for nothing. */
  readonly internalSecret: string | null;
  /** Who signs the services' certificates, in PEM; null: the authorities that Node knows. */
  readonly tlsAuthority: string | null;
}

export class HttpTransport implements ServiceTransport {
  readonly #http = new HttpAgent({ keepAlive: true, maxSockets: 16 });
  readonly #https: HttpsAgent;
  readonly #authority: { readonly ca?: string };
  readonly #credential: Readonly<Record<string, string>>;

  constructor({ internalSecret, tlsAuthority }: HttpTransportOptions) {
    this.#authority = tlsAuthority === null ? {} : { ca: tlsAuthority };
    this.#https = new HttpsAgent({ keepAlive: true, maxSockets: 16, ...this.#authority });
    this.#credential =
      internalSecret === null ? {} : { authorization: `Bearer ${internalCredential(internalSecret)}` };
  }

  async post(url: string, body: string, timeoutMs: number): Promise<HttpReply> {
    const signal = AbortSignal.timeout(timeoutMs);
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const response = await this.#send(url, { method: "POST", headers, stream: false, signal, body });
    const parts: Buffer[] = [];
    let size = 0;
    for await (const part of response) {
      const bytes = part as Buffer;
      size += bytes.length;
      if (size > MAX_ANSWER_BYTES) throw new Error("the service's answer is too large");
      parts.push(bytes);
    }
    return { status: response.statusCode ?? 0, body: Buffer.concat(parts).toString("utf8") };
  }

  async open(
    url: string,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<HttpStream> {
    const response = await this.#send(url, { method: "GET", headers, stream: true, signal });
    return { status: response.statusCode ?? 0, chunks: response as AsyncIterable<Uint8Array> };
  }

  #send(url: string, call: Call): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const secure = url.startsWith("https:");
      const { method, headers, stream, signal } = call;
      const agent = stream ? false : secure ? this.#https : this.#http;
      const request: ClientRequest = (secure ? httpsRequest : httpRequest)(
        url,
        {
          method,
          headers: { ...this.#credential, ...headers },
          agent,
          signal,
          ...(stream && this.#authority),
        },
        (response) => {
          request.setTimeout(0);
          resolve(response);
        },
      );
      if (stream)
        request.setTimeout(OPEN_TIMEOUT_MS, () => {
          request.destroy(new Error("the tracker did not answer in time"));
        });
      request.on("error", (cause) => {
        reject(explainTls(url, cause));
      });
      request.end(call.body);
    });
  }

  close(): void {
    this.#http.destroy();
    this.#https.destroy();
  }
}
