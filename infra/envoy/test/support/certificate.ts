// A certificate for localhost that signs itself, made of nothing but Node: whoever runs the tests may have no program for it.
import { generateKeyPairSync, sign } from "node:crypto";

const OID = {
  commonName: [0x55, 0x04, 0x03],
  ecdsaWithSha256: [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02],
};
const [INTEGER, BITS, OBJECT_ID, UTF8, TIME, SEQUENCE, SET, VERSION] = [2, 3, 6, 12, 23, 48, 49, 0xa0];

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

/** Valid from 2020 to 2049, under the given name. */
export function makeCertificate(name: string): { readonly certificate: string; readonly key: string } {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const algorithm = der(SEQUENCE, der(OBJECT_ID, OID.ecdsaWithSha256));
  const subject = der(
    SEQUENCE,
    der(SET, der(SEQUENCE, der(OBJECT_ID, OID.commonName), der(UTF8, Buffer.from(name)))),
  );
  const time = (text: string): Buffer => der(TIME, Buffer.from(text));
  const body = der(
    SEQUENCE,
    der(VERSION, der(INTEGER, [2])),
    der(INTEGER, [1]),
    algorithm,
    subject,
    der(SEQUENCE, time("200101000000Z"), time("490101000000Z")),
    subject,
    publicKey.export({ type: "spki", format: "der" }),
  );
  const signature = der(BITS, [0], sign("sha256", body, privateKey));
  return {
    certificate: pem("CERTIFICATE", der(SEQUENCE, body, algorithm, signature)),
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
  };
}
