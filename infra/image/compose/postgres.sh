#!/bin/bash
# Starts a PostgreSQL server of compose.yaml. The first start makes its data: `postgres.sh NAME` a
# new database, `postgres.sh NAME HOST` a copy of HOST that follows it. POSTGRES_PASSWORD is the
# superuser's. If a start was interrupted, the next one begins again.
set -euo pipefail
name=$1 follows=${2-}

settings() {
  cat <<END
listen_addresses = '*'
unix_socket_directories = ''
cluster_name = '$name'
wal_keep_size = '1GB'
wal_log_hints = on
hot_standby_feedback = on
END
}

if [ ! -e "$PGDATA" ]; then
  rm -rf "$PGDATA.new"
  if [ -z "$follows" ]; then
    initdb --pgdata "$PGDATA.new" --username postgres --encoding UTF8 --locale C.UTF-8 \
      --auth scram-sha-256 --pwfile <(printf '%s\n' "$POSTGRES_PASSWORD")
    printf 'host all all all scram-sha-256\nhost replication postgres all scram-sha-256\n' >> "$PGDATA.new/pg_hba.conf"
    settings >> "$PGDATA.new/postgresql.conf"
    echo 'CREATE DATABASE app' | postgres --single -D "$PGDATA.new" postgres
  else
    export PGPASSWORD=$POSTGRES_PASSWORD
    until pg_basebackup --checkpoint fast --write-recovery-conf --pgdata "$PGDATA.new" \
      --dbname "host=$follows user=postgres application_name=$name"; do
      rm -rf "$PGDATA.new"
      sleep 1
    done
    unset PGPASSWORD
    settings >> "$PGDATA.new/postgresql.conf"
  fi
  mv "$PGDATA.new" "$PGDATA"
fi
exec postgres -D "$PGDATA"
