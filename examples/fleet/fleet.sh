#!/usr/bin/env bash
# A fleet on this machine, without containers: PostgreSQL, Valkey, haproxy and three gateways. All of it is kept in FOLDER.
#
#     apt-get install postgresql redis-server haproxy; pip install '.[fleet]'
#     examples/fleet/fleet.sh start FOLDER
#     examples/fleet/fleet.sh restart FOLDER     # all gateways, one after the other: no request fails
#     examples/fleet/fleet.sh stop FOLDER
#
# GW_ADMIN_TOKEN and GW_SECRET must be set. GW is the command of the gateway, FRONT the address of haproxy, and PORTS are the ports of
# PostgreSQL, Valkey and the gateways.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
what=${1:?start, restart or stop} folder=$(realpath -m "${2:?a folder}")
read -r -a ports <<< "${PORTS:-5433 6390 8081 8082 8083}"
read -r -a gateway <<< "${GW:-gw}"
export GW_DATABASE_URL="postgresql://gw@127.0.0.1:${ports[0]}/postgres" GW_VALKEY_URL="valkey://127.0.0.1:${ports[1]}/0"
export FRONT=${FRONT:-127.0.0.1:8080} GW1="127.0.0.1:${ports[2]}" GW2="127.0.0.1:${ports[3]}" GW3="127.0.0.1:${ports[4]}"
postgres=$(find /usr/lib/postgresql -path '*/bin/postgres' | sort -V | tail -1)

as_postgres() { # COMMAND...: in place of this shell; PostgreSQL does not run as root
    if [ "$(id -u)" = 0 ]; then exec setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; else exec "$@"; fi
}

begin() { # NAME COMMAND...: in the background, with its log and its process id in the folder
    local name=$1
    shift
    "$@" >> "$folder/$name.log" 2>&1 &
    echo $! > "$folder/$name.pid"
}

await() { # COMMAND...: until it succeeds
    for _ in $(seq 600); do
        if "$@" > /dev/null 2>&1; then return; fi
        sleep 0.1
    done
    echo "this did not succeed within a minute: $*" >&2
    exit 1
}

end() { # NAME SIGNAL: and wait until the process is gone
    local pid
    pid=$(cat "$folder/$1.pid") && kill "-$2" "$pid" || return 0
    await bash -c "! kill -0 $pid"
}

start_gateway() { # NUMBER
    mkdir -p "$folder/gw-$1"
    GW_INSTANCE="gw-$1" GW_DB_PATH="$folder/gw-$1/gw.db" \
        begin "gw-$1" "${gateway[@]}" serve --config "$here/gw.yaml" --port "${ports[$1 + 1]}"
}

await_gateway() { # NUMBER
    await curl --fail --silent "http://127.0.0.1:${ports[$1 + 1]}/ready"
}

case $what in
start)
    mkdir -p "$folder/postgres" "$folder/valkey"
    if [ "$(id -u)" = 0 ]; then chown postgres: "$folder/postgres"; fi
    if [ ! -e "$folder/postgres/PG_VERSION" ]; then
        (as_postgres "${postgres%/*}/initdb" -D "$folder/postgres" -U gw -A trust -E UTF8 --locale=C.UTF-8) > "$folder/initdb.log"
    fi
    begin postgres as_postgres "$postgres" -D "$folder/postgres" -p "${ports[0]}" -c unix_socket_directories=
    begin valkey "$(command -v valkey-server || command -v redis-server)" --port "${ports[1]}" --bind 127.0.0.1 \
        --dir "$folder/valkey" --appendonly yes --maxmemory-policy noeviction
    await "${postgres%/*}/pg_isready" -h 127.0.0.1 -p "${ports[0]}"
    for n in 1 2 3; do start_gateway "$n"; done
    for n in 1 2 3; do await_gateway "$n"; done
    begin haproxy haproxy -db -f "$here/haproxy.cfg"
    await curl --fail --silent "http://$FRONT/ready"
    echo "the fleet is ready at http://$FRONT"
    ;;
restart)
    for n in 1 2 3; do
        end "gw-$n" TERM
        start_gateway "$n"
        await_gateway "$n"
        sleep 2 # until haproxy has found it ready
    done
    ;;
stop)
    for name in haproxy gw-1 gw-2 gw-3 valkey; do end "$name" TERM; done
    end postgres INT # "fast": it does not wait for clients
    ;;
esac
