#!/bin/sh
# All engines: DuckDB, a PostgreSQL that this script starts and stops and that listens to this machine alone, and Spark
# in local mode. $1 is the Python whose environment has them.
set -eu
python=$1
shift
bin=$(ls -d /usr/lib/postgresql/*/bin /usr/bin 2>/dev/null | while read -r place; do
    if [ -x "$place/initdb" ]; then echo "$place"; break; fi; done)
if [ -z "$bin" ]; then
    echo "PostgreSQL is needed: apt-get install postgresql" >&2
    exit 1
fi
work=$(mktemp -d)
chmod 755 "$work"
as=""
if [ "$(id -u)" = 0 ]; then # its server refuses to be run by root
    chown postgres "$work"
    as="runuser -u postgres --"
fi
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
finish() {
    $as "$bin/pg_ctl" -D "$work/data" -m immediate stop >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap finish EXIT INT TERM
$as "$bin/initdb" -D "$work/data" -A trust -U owner -E UTF8 --locale=C >/dev/null
$as "$bin/pg_ctl" -D "$work/data" -w -l "$work/log" \
    -o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories=$work -c log_statement=all -c fsync=off" start >/dev/null
$as chmod 644 "$work/log"
HAZEGLASS_WAREHOUSE=1 HAZEGLASS_SPARK=1 HAZEGLASS_POSTGRES="127.0.0.1:$port" HAZEGLASS_POSTGRES_LOG="$work/log" \
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 "$python" -m pytest -q -p no:cacheprovider -o timeout=1800 tests/warehouse "$@"
