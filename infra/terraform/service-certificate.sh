#!/usr/bin/env bash
# Makes a certificate for the services of a system's regions, and prints the value of the secret
# `tls`: the certificate, its key, and the authority. The authority is in FOLDER, and is made there
# if there is none. Needs openssl and jq.
set -euo pipefail

usage() {
  cat >&2 << 'END'
Usage: service-certificate.sh FOLDER REGION...

FOLDER    authority.crt and authority.key are there, or are made there; anyone with the key can stand in for any service
DOMAIN    (environment) the private domain: highwater.internal, unless Terraform's variable `private_domain` says otherwise
DAYS      (environment) how long the certificate is valid: 398
END
  exit 2
}

[[ $# -ge 2 ]] || usage
folder="$1"
shift
names="$(printf ",DNS:*.%s.${DOMAIN:-highwater.internal}" "$@")"
umask 077
mkdir -p "$folder"
if [[ ! -e "$folder/authority.key" ]]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=Highwater services" \
    -keyout "$folder/authority.key" -out "$folder/authority.crt"
fi
made="$(mktemp -d)"
trap 'rm -rf "$made"' EXIT
openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=Highwater service" \
  -keyout "$made/key" -out "$made/request"
printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\n' "${names#,}" > "$made/extensions"
openssl x509 -req -in "$made/request" -CA "$folder/authority.crt" -CAkey "$folder/authority.key" -set_serial "0x$(openssl rand -hex 16)" \
  -days "${DAYS:-398}" -extfile "$made/extensions" -out "$made/certificate"
jq -n --rawfile certificate "$made/certificate" --rawfile key "$made/key" --rawfile authority "$folder/authority.crt" \
  '{HIGHWATER_TLS_CERTIFICATE: $certificate, HIGHWATER_TLS_KEY: $key, HIGHWATER_TLS_CA: $authority}'
