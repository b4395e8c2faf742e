#!/usr/bin/env bash
# The tutorial on PostgreSQL, driven by two engines and the demo itself: kill an engine meanwhile, and another one goes on.
# The server is of the version that is installed, with its data in a directory that is removed at the end.
#
#   examples/postgres.sh [FLAGS of slipway demo]
set -euo pipefail
cd "$(dirname "$0")/.."

bin=${SLIPWAY_POSTGRES:-$(ls -d /usr/lib/postgresql/*/bin /usr/pgsql-*/bin 2>/dev/null | sort -V | tail -n 1 || true)}
bin=${bin:-$(dirname "$(command -v initdb || true)")}
if [ ! -x "$bin/initdb" ]; then
	echo "missing: PostgreSQL 15 or newer, in ${bin:-PATH} there is no initdb: install it (apt-get install postgresql), or set SLIPWAY_POSTGRES to the directory of initdb" >&2
	exit 1
fi

dir=$(mktemp -d /tmp/slipway.XXXXXX) # the path of a socket must be short
running=()
as=()
end() {
	trap '' INT TERM HUP
	[ ${#running[@]} = 0 ] || kill "${running[@]}" 2>/dev/null || true
	wait
	(cd / && ${as[@]+"${as[@]}"} "$bin/pg_ctl" -D "$dir/data" -m immediate stop >/dev/null 2>&1) || true
	rm -rf "$dir"
	echo "the database of this example is removed" >&2
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

if [ "$(id -u)" = 0 ]; then # the server refuses to run as root
	as=(runuser -u postgres --)
	chown postgres "$dir"
fi

echo "building slipway, which takes a minute the first time" >&2
(cd cmd/slipway && go build -o "$dir/slipway" .)
(
	cd /
	${as[@]+"${as[@]}"} "$bin/initdb" -D "$dir/data" -U postgres -A trust >"$dir/log" 2>&1
	${as[@]+"${as[@]}"} "$bin/pg_ctl" -D "$dir/data" -l "$dir/server.log" -o "-k $dir -c listen_addresses=''" -w start >>"$dir/log" 2>&1
) || { cat "$dir"/*log >&2; exit 1; }

store="postgres:///postgres?user=postgres&host=$dir"
for _ in 1 2; do
	"$dir/slipway" serve --store "$store" --demo >&2 &
	running+=($!)
done
# In the background, so that a signal to this script reaches it at once; it has the terminal all the same.
"$dir/slipway" demo --data "$store" "$@" <&0 &
running+=($!)
wait $!
