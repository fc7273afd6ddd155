#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Traces released MindSpore on the simulated CANN; rows must equal its own statistics and tracker.
set -uo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$(readlink -f "$0")")/../../scripts/lib.sh"

build=$top/build
versions=()
names=()
while [ $# -gt 0 ]; do
	case $1 in
	--version) versions+=("$2"); shift ;;
	--build) build=$(readlink -f "$2") || build=$2; shift ;;
	-h | --help)
		cat <<'X'
Usage: tests/real/mindspore.sh [--version VERSION]... [--build DIR] [NAME...]

Runs tests/real/test_ms_*.py on a release of MindSpore (2.10.0), memtap and the
simulated CANN of a build folder (build). The wheel, 800 MB, is downloaded once
(scripts/real-env.sh). Prints one line a test and a closing line; exit status 1 if a
test failed.
X
		exit 0
		;;
	-*) echo "mindspore.sh: unknown option '$1' (--help tells)" >&2; exit 2 ;;
	*) names+=("$1") ;;
	esac
	shift
done
[ ${#versions[@]} -gt 0 ] || versions=(2.10.0)

passed=0 failed=0 skipped=0
log=$(mktemp) out=$(mktemp)
trap 'rm -f "$log" "$out"' EXIT
for version in "${versions[@]}"; do
	label=mindspore,$version
	"$top/scripts/real-env.sh" --build "$build" --mindspore "$version" 2>&1 >"$out" | tee "$log" >&2
	status=${PIPESTATUS[0]}
	if [ "$status" = 77 ]; then
		echo "skip $label environment ($(tail -n 1 "$log"))"
		skipped=$((skipped + 1))
		continue
	elif [ "$status" != 0 ]; then
		echo "FAIL $label environment ($(tail -n 1 "$log"))"
		failed=$((failed + 1))
		continue
	fi
	python3 "$top/tests/real/run.py" --mindspore --retry --run "$(<"$out")" --build "$build" --label "$label " \
		"${names[@]}" | tee "$log" | grep --line-buffered -vE '^[0-9]+ passed, '
	status=${PIPESTATUS[0]}
	line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
	if [ -z "$line" ]; then
		echo "FAIL $label runner (ended with status $status)"
		failed=$((failed + 1))
		continue
	fi
	passed=$((passed + $(cut -d ' ' -f 1 <<<"$line")))
	failed=$((failed + $(cut -d ' ' -f 3 <<<"$line")))
	skipped=$((skipped + $(cut -d ' ' -f 5 <<<"$line")))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
