// Goal: a certificate, its key and an authority are read as PEM or from files; faults name the
// variable and never quote a key.
import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { describe, test } from "node:test";
import { makeAuthority, makeCertificate } from "@highwater/lab-tools/process/certificate";
import { MetricSet, registerProcess } from "../metrics/index.ts";
import { type Env, readSettings } from "./setting.ts";
import {
  certificateExpiresMs,
  explainTls,
  LISTENER_TLS_SETTINGS,
  serverCertificate,
  tlsAuthority,
  tlsFaults,
  tlsWarnings,
} from "./tls.ts";

const AUTHORITY = makeAuthority("the deployment");
const SHOWN = AUTHORITY.issue("tracker-1");
const OTHER = makeCertificate("another");
const FILES: Readonly<Record<string, string>> = { "/tls.crt": SHOWN.certificate, "/tls.key": SHOWN.key };

function read(env: Env) {
  const table = { ...LISTENER_TLS_SETTINGS, tlsAuthority };
  return readSettings(table, env, (path) => FILES[path] ?? assert.fail(`${path} is not there`));
}

describe("settings of TLS", () => {
  test("are PEM, or files of it; without them a service speaks plain HTTP", () => {
    const pair = { cert: SHOWN.certificate, key: SHOWN.key };
    const byText = { HIGHWATER_TLS_CERTIFICATE: SHOWN.certificate, HIGHWATER_TLS_KEY: SHOWN.key };
    const byFile = { HIGHWATER_TLS_CERTIFICATE: "@/tls.crt", HIGHWATER_TLS_KEY: "@/tls.key" };
    for (const env of [byText, byFile]) {
      const { values, faults } = read({ ...env, HIGHWATER_TLS_CA: AUTHORITY.certificate });
      assert.deepEqual(faults, []);
      assert.deepEqual(tlsFaults(values), []);
      assert.deepEqual(serverCertificate(values), pair);
      assert.equal(values.tlsAuthority, AUTHORITY.certificate);
    }
    assert.equal(serverCertificate(read({}).values), null);
  });

  test("say when the first certificate of the chain expires", () => {
    const expiryOf = (text: string): number => Date.parse(new X509Certificate(text).validTo);
    const ends = [SHOWN, AUTHORITY].map(({ certificate }) => expiryOf(certificate));
    assert.equal(certificateExpiresMs(`${SHOWN.certificate}\n${AUTHORITY.certificate}`), Math.min(...ends));
    const metrics = new MetricSet();
    const identity = { service: "txn-gateway", name: "g", region: "r" } as const;
    registerProcess(metrics, { identity, certificate: SHOWN.certificate });
    const shown = /^highwater_tls_certificate_expires_seconds (\S+)$/m.exec(metrics.render())?.[1];
    assert.equal(Number(shown), expiryOf(SHOWN.certificate) / 1_000);
    const plain = new MetricSet();
    registerProcess(plain, { identity, certificate: null });
    assert.doesNotMatch(plain.render(), /^highwater_tls_certificate/m);
  });

  test("that are of no use are refused, and no key is quoted", () => {
    const torn = SHOWN.key.replace("PRIVATE KEY", "KEY");
    const { faults } = read({
      HIGHWATER_TLS_CERTIFICATE: "no certificate",
      HIGHWATER_TLS_KEY: torn,
      HIGHWATER_TLS_CA: SHOWN.certificate.slice(0, 100),
    });
    assert.deepEqual(
      faults.map((fault) => fault.split(" in PEM")[0]),
      [
        "HIGHWATER_TLS_CERTIFICATE must be a certificate",
        "HIGHWATER_TLS_KEY must be a private key without a passphrase",
        "HIGHWATER_TLS_CA must be one or more certificates",
      ],
    );
    assert.ok(!faults.join().includes(SHOWN.key.slice(40, 60)));
  });

  test("must be a pair", () => {
    const both = { tlsCertificate: SHOWN.certificate, tlsKey: SHOWN.key };
    assert.match(tlsFaults({ ...both, tlsKey: null })[0] ?? "", /^HIGHWATER_TLS_KEY is required/);
    assert.match(
      tlsFaults({ ...both, tlsCertificate: null })[0] ?? "",
      /^HIGHWATER_TLS_CERTIFICATE is required/,
    );
    assert.match(tlsFaults({ ...both, tlsKey: OTHER.key })[0] ?? "", /is not the key of/);
  });
});

test("a service that is reached over a network without TLS, or asks trackers there without it, says so at its start", () => {
  const plain = { tlsCertificate: null, tlsKey: null };
  const secure = { tlsCertificate: SHOWN.certificate, tlsKey: SHOWN.key };
  assert.deepEqual(tlsWarnings({ ...plain, host: "127.0.0.1", trackers: ["http://localhost:1"] }), []);
  assert.deepEqual(tlsWarnings({ ...secure, host: "0.0.0.0", trackers: ["https://tracker-1:1"] }), []);
  const warnings = tlsWarnings({
    ...{ ...plain, host: "0.0.0.0" },
    trackers: ["http://tracker-1:4601", "https://tracker-2:4601"],
    peers: ["http://gateway-1:4600", "http://localhost:4600"],
  });
  assert.equal(warnings.length, 3);
  assert.match(warnings[0] ?? "", /listens on 0\.0\.0\.0 without TLS.*HIGHWATER_TLS_CERTIFICATE/);
  assert.match(warnings[1] ?? "", /GATEWAY_TRACKERS has http URLs \(tracker-1:4601\)/);
  assert.match(warnings[2] ?? "", /GATEWAY_PEERS has http URLs \(gateway-1:4600\)/);
});

test("an error that has nothing to do with TLS stays as it is", () => {
  const refused = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
  assert.equal(explainTls("https://tracker-1:1", refused), refused);
});
