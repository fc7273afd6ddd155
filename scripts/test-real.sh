#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Traces released torch + torch_npu wheels, and MindSpore's, on the simulated CANN; rows must equal their own account.
set -uo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

build=$top/build
pairs=()
names=()
mindspore=
while [ $# -gt 0 ]; do
	case $1 in
	--pair) pairs+=("${2/,/ }"); shift ;;
	--mindspore) mindspore=1 ;;
	--build) build=$(readlink -f "$2") || build=$2; shift ;;
	-h | --help)
		cat <<'X'
Usage: scripts/test-real.sh [--pair TORCH,TORCH_NPU]... [--mindspore] [--build DIR] [NAME...]

Runs tests/real for each pair of releases (2.7.1,2.7.1) on memtap and the simulated
CANN of a build folder (build; built if missing). NAME selects tests by substring.
Wheels are downloaded once (scripts/real-env.sh). Prints one line a test and a
closing line; exit status 1 if a test failed.

  --mindspore   MindSpore 2.10.0 (tests/real/mindspore.sh); without a pair, it alone
X
		exit 0
		;;
	-*) echo "test-real.sh: unknown option '$1' (--help tells)" >&2; exit 2 ;;
	*) names+=("$1") ;;
	esac
	shift
done
[ ${#pairs[@]} -gt 0 ] || [ "$mindspore" ] || pairs=("2.7.1 2.7.1")

if ! [ -x "$build/memtap" ] || ! [ -d "$build/tests/sim" ]; then
	say "building"
	# shellcheck disable=SC2086
	if ! need_packages $packages_build || ! build_in "$build"; then
		echo "FAIL build"
		echo "0 passed, 1 failed, 0 skipped"
		exit 1
	fi
fi

passed=0 failed=0 skipped=0
log=$(mktemp) out=$(mktemp)
trap 'rm -f "$log" "$out"' EXIT

# Add the counts of the closing line in $log; 1 if there is none.
add_counts() {
	local closing
	closing=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
	[ "$closing" ] || return 1
	passed=$((passed + $(cut -d ' ' -f 1 <<<"$closing")))
	failed=$((failed + $(cut -d ' ' -f 3 <<<"$closing")))
	skipped=$((skipped + $(cut -d ' ' -f 5 <<<"$closing")))
}

for pair in "${pairs[@]}"; do
	label=${pair/ /,}
	say "torch ${pair/ / with torch_npu }"
	# shellcheck disable=SC2086
	"$top/scripts/real-env.sh" --build "$build" $pair 2>&1 >"$out" | tee "$log" >&2
	status=${PIPESTATUS[0]}
	run=$(<"$out")
	if [ "$status" = 77 ]; then
		echo "skip $label ($(tail -n 1 "$log"))"
		skipped=$((skipped + 1))
		continue
	elif [ "$status" != 0 ]; then
		echo "FAIL $label (no environment: $(tail -n 1 "$log"))"
		failed=$((failed + 1))
		continue
	fi
	python3 "$top/tests/real/run.py" --retry --run "$run" --build "$build" --label "$label " "${names[@]}" | tee "$log" |
		grep --line-buffered -vE '^[0-9]+ passed, '
	status=${PIPESTATUS[0]}
	line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
	if [ -z "$line" ]; then
		echo "FAIL $label (the runner ended with status $status)"
		failed=$((failed + 1))
		continue
	fi
	passed=$((passed + $(cut -d ' ' -f 1 <<<"$line")))
	failed=$((failed + $(cut -d ' ' -f 3 <<<"$line")))
	skipped=$((skipped + $(cut -d ' ' -f 5 <<<"$line")))
done
if [ "$mindspore" ]; then
	say "MindSpore"
	"$top/tests/real/mindspore.sh" --build "$build" "${names[@]}" | tee "$log" | grep --line-buffered -vE '^[0-9]+ passed, '
	if ! add_counts; then
		echo "FAIL mindspore (no closing line)"
		failed=$((failed + 1))
	fi
fi
# The derivation of hidden functions on six released libraries.
if [ ${#names[@]} -eq 0 ] && [ ${#pairs[@]} -gt 0 ]; then
	say "derivation in released libraries"
	MEMTAP=$build/memtap "$top/tests/real/derive-all.sh" --ci | tee "$log" | grep -vE '^[0-9]+ passed, '
	line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
	if [ -n "$line" ]; then
		passed=$((passed + $(cut -d ' ' -f 1 <<<"$line")))
		failed=$((failed + $(cut -d ' ' -f 3 <<<"$line")))
		skipped=$((skipped + $(cut -d ' ' -f 5 <<<"$line")))
	else
		echo "FAIL derivation (no closing line)"
		failed=$((failed + 1))
	fi
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
