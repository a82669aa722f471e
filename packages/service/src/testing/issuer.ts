// An issuer of tokens with real keys, and a real HTTP server for its key set. A test can change the
// key set, break it and count its reads.
import { createServer, type Server } from "node:http";
import { type AddressInfo } from "node:net";
import {
  type CryptoKey,
  exportJWK,
  exportSPKI,
  generateKeyPair,
  type JWK,
  type JWTPayload,
  SignJWT,
} from "jose";

export interface IssuerKey {
  readonly kid: string;
  readonly algorithm: string;
  readonly privateKey: CryptoKey;
  readonly publicPem: string;
  readonly jwk: JWK;
}

export type Claims = Readonly<Record<string, unknown>>;

export async function makeKey(kid: string, algorithm = "ES256"): Promise<IssuerKey> {
  const { privateKey, publicKey } = await generateKeyPair(algorithm, { extractable: true });
  const jwk = { ...(await exportJWK(publicKey)), kid, alg: algorithm, use: "sig" };
  return { kid, algorithm, privateKey, publicPem: await exportSPKI(publicKey), jwk };
}

export class TestIssuer {
  readonly name = "https://idp.example.com/realms/shop";
  /** The keys in the key set. */
  keys: readonly IssuerKey[] = [];
  /** How the server answers. `hang`: not at all. */
  mode: "well" | "error" | "garbage" | "redirect" | "hang" = "well";
  reads = 0;
  readonly #server: Server;
  #port = 0;

  constructor() {
    this.#server = createServer((_request, response) => {
      this.reads++;
      if (this.mode === "hang") return;
      if (this.mode === "error") response.writeHead(500).end("no");
      else if (this.mode === "redirect") response.writeHead(302, { location: this.jwksUrl }).end();
      else
        response.end(
          this.mode === "garbage" ? "<html>" : JSON.stringify({ keys: this.keys.map(({ jwk }) => jwk) }),
        );
    });
  }

  get jwksUrl(): string {
    return `http://127.0.0.1:${String(this.#port)}/jwks`;
  }

  /** At a new port each time, because another process may have taken the last one. */
  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  /**
   * Signs a token that is valid for a minute from `nowMs`, unless `claims` change that; undefined
   * leaves a claim out.
   */
  sign(key: IssuerKey, nowMs: number, claims: Claims = {}, typ?: string): Promise<string> {
    const payload = {
      iss: this.name,
      aud: "highwater",
      sub: "alice",
      exp: Math.floor(nowMs / 1_000) + 60,
      scope: "read write",
      highwater_role: "app_orders",
      ...claims,
    };
    const header = { alg: key.algorithm, kid: key.kid, ...(typ === undefined ? {} : { typ }) };
    return new SignJWT(JSON.parse(JSON.stringify(payload)) as JWTPayload)
      .setProtectedHeader(header)
      .sign(key.privateKey);
  }
}
