#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# From nothing to a traced training job: installs, builds, starts a job, attaches to it, shows the peak.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

seconds=5
real=
keep=
while [ $# -gt 0 ]; do
	case $1 in
	--real) real=1 ;;
	--seconds) seconds=$2; shift ;;
	-o | --output) keep=$2; shift ;;
	-h | --help)
		cat <<'X'
Usage: scripts/quickstart.sh [--real] [--seconds N] [-o DIR]

Installs what is missing, builds memtap, starts a training job in the background,
attaches to its PID, records for some seconds (5), prints the summary with the peak of
each pool and the paths of the files, and holds the files against the ground truth that the
simulated job writes of itself.

  --real        real PyTorch + torch_npu on simulated CANN libraries (downloads the
                wheels from the Python package index once, about 900 MB, and keeps
                them in ${MEMTAP_CACHE:-~/.cache/memtap}) instead of the small
                simulated job
  --seconds N   record so long
  -o DIR        where the files go (default: a new folder below the current one)
X
		exit 0
		;;
	*) echo "quickstart.sh: unknown option '$1' (--help tells)" >&2; exit 2 ;;
	esac
	shift
done
[ "$(id -u)" = 0 ] || { echo "quickstart.sh: must be root: it installs packages and attaches probes" >&2; exit 1; }

# shellcheck disable=SC2086
need_packages $packages_build
say "building in build/: a minute or two"
build_in "$top/build" -Dtests=false
out=${keep:-$PWD/memtap-quickstart-$(date +%Y%m%d%H%M%S)}
log=$(mktemp)
truth=$(mktemp -d)
job=
cleanup() {
	[ -z "$job" ] || { kill -9 "$job" 2>/dev/null; wait "$job" 2>/dev/null; } || true
	rm -rf "$log" "$truth"
}
trap cleanup EXIT

if [ "$real" ]; then
	run=$("$top/scripts/real-env.sh" 2.7.1 2.7.1)
	say "starting a real torch_npu training loop"
	"$run" "$top/tests/real/programs/quickstart.py" >"$log" 2>&1 &
else
	say "starting the simulated training job"
	"$top/build/tests/sim/sim-train" --seconds $((seconds + 60)) --threads 2 --devices 2 --rate 4000 --quiet \
		--truth "$truth/job" >"$log" 2>&1 &
fi
job=$!
for _ in $(seq 600); do
	grep -q READY "$log" && break
	kill -0 "$job" 2>/dev/null || { cat "$log" >&2; echo "quickstart.sh: the job did not start" >&2; exit 1; }
	sleep 0.1
done
pid=$(awk '/READY/ {print $2; exit}' "$log")
sleep 1
say "the job runs as PID $pid; attaching: memtap record -p $pid -d $seconds -o $out"
"$top/build/memtap" record -p "$pid" -d "$seconds" -o "$out" --summary-json "$out/summary.json"
say "first rows of the dump"
head -n 6 "$out"/dump/leaks_dump_*.csv | cut -c 1-150
if [ -z "$real" ]; then
	say "the files against what the job wrote down of itself"
	kill "$job" && wait "$job" || { cat "$log" >&2; echo "quickstart.sh: the job failed" >&2; exit 1; }
	job=
	"$top/tests/live/hold.py" "$out" "$truth/job"
fi
say "done; the job was never touched and is ended now. On a real host: build/memtap record -p PID"
