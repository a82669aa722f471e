#!/usr/bin/env bash
# Starts two CockroachDB clusters of one server each from a binary that you have, the second one as
# the first one's standby, and prints how to test against them. Without certificates: for a test
# machine alone. Never run so far.
# Usage: start-servers.sh BINARY [FOLDER]. It ends both servers when it ends.
set -euo pipefail
binary=${1:?usage: start-servers.sh BINARY [FOLDER]}
folder=${2:-$(mktemp -d)}
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

start() { # NAME PORT INIT-FLAG
  local at=127.0.0.1:$2
  "$binary" start --insecure --store="$folder/$1" --listen-addr="$at" --sql-addr="127.0.0.1:$(($2 + 1))" \
    --http-addr="127.0.0.1:$(($2 + 2))" --join="$at" >"$folder/$1.log" 2>&1 &
  for _ in $(seq 60); do
    "$binary" init --insecure --host="$at" "$3" && return
    sleep 1
  done
  echo "$1 does not start: see $folder/$1.log" >&2
  exit 1
}
system() { # PORT STATEMENT
  "$binary" sql --url "postgresql://root@127.0.0.1:$(($1 + 1))/?sslmode=disable&options=-ccluster=system" --execute "$2"
}

start primary 26257 --virtualized
start standby 26357 --virtualized-empty
system 26257 "SET CLUSTER SETTING kv.rangefeed.enabled = true"
system 26357 "SET CLUSTER SETTING kv.rangefeed.enabled = true"
system 26357 "CREATE VIRTUAL CLUSTER main FROM REPLICATION OF main ON 'postgresql://root@127.0.0.1:26258/?sslmode=disable&options=-ccluster=system'"
echo "Both run until you press Ctrl+C. In another terminal:"
echo "make test-cockroach HIGHWATER_COCKROACH_URL='postgresql://root@127.0.0.1:26258/?sslmode=disable' HIGHWATER_COCKROACH_STANDBY_URL='postgresql://root@127.0.0.1:26358/?sslmode=disable'"
wait
