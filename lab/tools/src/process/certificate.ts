// Makes certificates for tests with Node alone, because the machine may have no program for it: a
// self-signed one, or an authority and certificates that it signs.
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import { isIPv4 } from "node:net";

const OID = {
  commonName: [0x55, 0x04, 0x03],
  ecdsaWithSha256: [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02],
  alternativeName: [0x55, 0x1d, 0x11],
  basicConstraints: [0x55, 0x1d, 0x13],
};
const [BOOLEAN, INTEGER, BITS, OCTETS, OBJECT_ID, UTF8, TIME, SEQUENCE, SET] = [
  1, 2, 3, 4, 6, 12, 23, 48, 49,
];
const [VERSION, EXTENSIONS, DNS_NAME, IP_ADDRESS] = [0xa0, 0xa3, 0x82, 0x87];
const TRUE = [0xff];
const SERIAL_BYTES = 8;

function der(tag: number, ...parts: readonly (Buffer | readonly number[])[]): Buffer {
  const content = Buffer.concat(parts.map((part) => Buffer.from(part)));
  const { length } = content;
  const head = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...head]), content]);
}

function pem(label: string, bytes: Buffer): string {
  const lines = bytes.toString("base64").replace(/.{64}/g, "$&\n").trimEnd();
  return `-----BEGIN ${label}-----\n${lines}\n-----END ${label}-----\n`;
}

export interface Certified {
  readonly certificate: string;
  readonly key: string;
}

/** Both in PEM. */
export interface Authority {
  readonly certificate: string;
  /** A certificate for a server with this name or IPv4 address. */
  issue(name: string): Certified;
}

interface Issuer {
  readonly name: string;
  readonly privateKey: KeyObject;
}

/** A self-signed certificate for the name, valid from 2020 to 2049. */
export function makeCertificate(name: string): Certified {
  const { certificate, privateKey } = make(name, null, der(SEQUENCE, alternativeName(name)));
  return { certificate, key: toPem(privateKey) };
}

/** The authority's own certificate can only verify others. */
export function makeAuthority(name: string): Authority {
  const isAuthority = der(SEQUENCE, der(BOOLEAN, TRUE));
  const constraints = der(
    SEQUENCE,
    der(OBJECT_ID, OID.basicConstraints),
    der(BOOLEAN, TRUE),
    der(OCTETS, isAuthority),
  );
  const { certificate, privateKey: own } = make(name, null, der(SEQUENCE, constraints));
  return {
    certificate,
    issue: (server) => {
      const made = make(server, { name, privateKey: own }, der(SEQUENCE, alternativeName(server)));
      return { certificate: made.certificate, key: toPem(made.privateKey) };
    },
  };
}

function alternativeName(name: string): Buffer {
  const named = isIPv4(name)
    ? der(IP_ADDRESS, name.split(".").map(Number))
    : der(DNS_NAME, Buffer.from(name));
  const names = der(SEQUENCE, named);
  return der(SEQUENCE, der(OBJECT_ID, OID.alternativeName), der(OCTETS, names));
}

/** Without an issuer it signs itself. */
function make(
  name: string,
  issuer: Issuer | null,
  extensions: Buffer,
): { readonly certificate: string; readonly privateKey: KeyObject } {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const algorithm = der(SEQUENCE, der(OBJECT_ID, OID.ecdsaWithSha256));
  const nameOf = (text: string): Buffer =>
    der(SEQUENCE, der(SET, der(SEQUENCE, der(OBJECT_ID, OID.commonName), der(UTF8, Buffer.from(text)))));
  const time = (text: string): Buffer => der(TIME, Buffer.from(text));
  // The first byte keeps the number positive and its length fixed.
  const serial = Buffer.concat([Buffer.from([1]), randomBytes(SERIAL_BYTES)]);
  const body = der(
    SEQUENCE,
    der(VERSION, der(INTEGER, [2])),
    der(INTEGER, serial),
    algorithm,
    nameOf(issuer?.name ?? name),
    der(SEQUENCE, time("200101000000Z"), time("490101000000Z")),
    nameOf(name),
    publicKey.export({ type: "spki", format: "der" }),
    der(EXTENSIONS, extensions),
  );
  const signature = der(BITS, [0], sign("sha256", body, issuer?.privateKey ?? privateKey));
  return { certificate: pem("CERTIFICATE", der(SEQUENCE, body, algorithm, signature)), privateKey };
}

function toPem(key: KeyObject): string {
  return key.export({ type: "pkcs8", format: "pem" }).toString();
}
