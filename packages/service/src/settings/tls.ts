// TLS between the services of a deployment: a service's certificate, and the authority by which its
// clients verify it. Both are read once at the start: a renewed certificate takes effect after a
// restart.
import { createPrivateKey, X509Certificate } from "node:crypto";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { hostOf, isLoopback, readText } from "./readers.ts";
import { Faults, type ReadFile, type Setting } from "./setting.ts";

/** Both in PEM. */
export interface ServerCertificate {
  readonly cert: string;
  readonly key: string;
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/**
 * PEM, or `@` and the path of a file that contains it; null when it is not set. `check`: throws
 * when the text is unusable.
 */
function pem(variable: string, what: string, check: (text: string) => unknown): Setting<string | null> {
  return {
    variable,
    read: (value, readFile: ReadFile) => {
      if (value === undefined || value === "") return null;
      const text = value.startsWith("@") ? readText(value.slice(1), readFile) : value;
      try {
        check(text);
      } catch {
        // The error's own message would quote a part of a key.
        throw new Faults(`must be ${what} in PEM, or \`@\` and the path of a file that holds it`);
      }
      return text;
    },
  };
}

function certificatesOf(text: string): X509Certificate[] {
  const found = [...text.matchAll(CERTIFICATE)].map(([each]) => new X509Certificate(each));
  if (found.length === 0) throw new Error("no certificate");
  return found;
}

/** For a service that listens. */
export const LISTENER_TLS_SETTINGS = {
  /** Followed by intermediate certificates, if there are any. */
  tlsCertificate: pem("HIGHWATER_TLS_CERTIFICATE", "a certificate", certificatesOf),
  tlsKey: pem("HIGHWATER_TLS_KEY", "a private key without a passphrase", createPrivateKey),
} as const;

/** The authorities that sign the trackers' certificates. Default: those that Node trusts. */
export const tlsAuthority: Setting<string | null> = pem(
  "HIGHWATER_TLS_CA",
  "one or more certificates",
  certificatesOf,
);

/**
 * For programs that call services by `fetch`, which has no option for an authority. Applies to the
 * whole process.
 */
export function trustAuthority(authority: string | null): void {
  if (authority !== null) setDefaultCACertificates([...getCACertificates("default"), authority]);
}

/** When the first certificate of a chain expires, in milliseconds since 1970. */
export function certificateExpiresMs(chain: string): number {
  return Math.min(...certificatesOf(chain).map(({ validTo }) => Date.parse(validTo)));
}

interface ListenerTls {
  readonly tlsCertificate: string | null;
  readonly tlsKey: string | null;
}

/** Faults of the combination of the two. */
export function tlsFaults({ tlsCertificate, tlsKey }: ListenerTls): string[] {
  if (tlsCertificate === null && tlsKey === null) return [];
  if (tlsKey === null) return ["HIGHWATER_TLS_KEY is required with HIGHWATER_TLS_CERTIFICATE"];
  if (tlsCertificate === null) return ["HIGHWATER_TLS_CERTIFICATE is required with HIGHWATER_TLS_KEY"];
  const isPair = certificatesOf(tlsCertificate)[0]?.checkPrivateKey(createPrivateKey(tlsKey)) === true;
  return isPair ? [] : ["HIGHWATER_TLS_KEY is not the key of HIGHWATER_TLS_CERTIFICATE"];
}

/** The certificate to listen with; null: plain HTTP. */
export function serverCertificate({ tlsCertificate, tlsKey }: ListenerTls): ServerCertificate | null {
  return tlsCertificate === null || tlsKey === null ? null : { cert: tlsCertificate, key: tlsKey };
}

/** Warns of traffic that leaves the machine unencrypted. */
export function tlsWarnings(
  config: ListenerTls & {
    readonly host: string;
    readonly trackers?: readonly string[];
    readonly peers?: readonly string[];
    readonly gateways?: readonly string[];
  },
): string[] {
  const warnings: string[] = [];
  if (config.tlsCertificate === null && !isLoopback(config.host))
    warnings.push(
      `The service listens on ${config.host} without TLS, so credentials and data cross the network unencrypted. Set HIGHWATER_TLS_CERTIFICATE and HIGHWATER_TLS_KEY.`,
    );
  for (const [variable, urls, what] of [
    ["GATEWAY_TRACKERS", config.trackers ?? [], "the internal secret crosses"],
    ["GATEWAY_PEERS", config.peers ?? [], "the internal secret crosses"],
    ["TRACKER_GATEWAYS", config.gateways ?? [], "callers' credentials cross"],
  ] as const) {
    const plain = urls.filter((url) => {
      const { protocol, hostname } = new URL(url);
      return protocol === "http:" && !isLoopback(hostname.replace(/^\[|\]$/g, ""));
    });
    if (plain.length > 0)
      warnings.push(
        `${variable} has http URLs (${plain.map(hostOf).join(", ")}), so ${what} the network unencrypted. Set HIGHWATER_TLS_CERTIFICATE and HIGHWATER_TLS_KEY of those services, and use https URLs.`,
      );
  }
  return warnings;
}

const UNTRUSTED = new Set([
  "CERT_SIGNATURE_FAILURE",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);

/**
 * Explains why a request to a service failed, if TLS or its absence is the reason; otherwise
 * returns the error.
 */
export function explainTls(url: string, cause: Error & { readonly code?: string }): Error {
  const { code = "", message } = cause;
  const host = hostOf(url);
  const explained = (text: string): Error => Object.assign(new Error(text, { cause }), { code });
  if (UNTRUSTED.has(code))
    return explained(
      `The certificate of ${host} is not signed by a trusted authority (${code}). Set HIGHWATER_TLS_CA to the deployment's authority, and check that ${host} shows a certificate of it.`,
    );
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID")
    return explained(
      `The certificate of ${host} is for another name. The service needs a certificate whose subject alternative names have that host.`,
    );
  if (code === "CERT_HAS_EXPIRED")
    return explained(`The certificate of ${host} has expired. Renew it, and restart the service.`);
  if (url.startsWith("https:") && code === "EPROTO" && message.includes("wrong version number"))
    return explained(
      `${host} does not speak TLS. Set HIGHWATER_TLS_CERTIFICATE and HIGHWATER_TLS_KEY there, or use an http URL.`,
    );
  if (url.startsWith("http:") && code === "ECONNRESET")
    return explained(
      `${host} ended the connection without an answer (ECONNRESET). If it listens with TLS, its URL begins with https.`,
    );
  return cause;
}
