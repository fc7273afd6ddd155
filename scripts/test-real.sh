#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Traces released torch + torch_npu wheels on the simulated CANN; rows must equal torch_npu's own account.
set -uo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# One pair for each generation of torch_npu, 5.0 to 26.1 and beyond (ascend-abi.md 2.7.1); those of one
# torch together, so that it is downloaded once.
generations=("2.1.0 2.1.0" "2.1.0 2.1.0.post3" "2.1.0 2.1.0.post6" "2.1.0 2.1.0.post8" "2.1.0 2.1.0.post10"
	     "2.1.0 2.1.0.post12" "2.1.0 2.1.0.post13" "2.7.1 2.7.1" "2.7.1 2.7.1.post2" "2.7.1 2.7.1.post4"
	     "2.7.1 2.7.1.post8" "2.14.0 2.14.0")
build=$top/build
pairs=()
names=()
all=
discard=
while [ $# -gt 0 ]; do
	case $1 in
	--pair) pairs+=("${2/,/ }"); shift ;;
	--all) all=1; pairs+=("${generations[@]}") ;;
	--discard) discard=1 ;;
	--build) build=$(readlink -f "$2") || build=$2; shift ;;
	-h | --help)
		cat <<X
Usage: scripts/test-real.sh [--pair TORCH,TORCH_NPU]... [--all] [--discard] [--build DIR] [NAME...]

Runs tests/real for each pair of releases (2.7.1,2.7.1) on memtap and the simulated
CANN of a build folder (build; built if missing). NAME selects tests by substring.
Wheels are downloaded once (scripts/real-env.sh). Prints one line a test and a
closing line; exit status 1 if a test failed.

  --pair A,B  torch A with torch_npu B; may be repeated
  --all       one pair for each generation of torch_npu, and without NAME the derivation
              in all released libraries of tests/real/derivation.tsv instead of six;
              with a table of the results at the end. Takes 5 minutes a pair on 2 cores:
              ${generations[*]/ /,}
  --discard   delete each environment that this run has made once the next one is there
              (torch is taken over from it if it is the same), and each library as soon
              as its derivation is compared. An environment takes 1 GB
X
		exit 0
		;;
	-*) echo "test-real.sh: unknown option '$1' (--help tells)" >&2; exit 2 ;;
	*) names+=("$1") ;;
	esac
	shift
done
[ ${#pairs[@]} -gt 0 ] || pairs=("2.7.1 2.7.1")

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
log=$(mktemp) out=$(mktemp) lines=$(mktemp)
mine=() # environments that this run has made
trap 'rm -f "$log" "$out" "$lines"' EXIT

# A line of a test: to be seen, and for the table.
line() {
	tee -a "$lines" <<<"$1"
}

# Delete the environments of this run but for the last N.
discard_but() {
	while [ "$discard" ] && [ ${#mine[@]} -gt "$1" ]; do
		rm -rf "${mine[0]}"
		mine=("${mine[@]:1}")
	done
}

# Add the counts of the closing line in $log; 1 if there is none.
add_counts() {
	local closing
	closing=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
	[ "$closing" ] || return 1
	passed=$((passed + $(cut -d ' ' -f 1 <<<"$closing")))
	failed=$((failed + $(cut -d ' ' -f 3 <<<"$closing")))
	skipped=$((skipped + $(cut -d ' ' -f 5 <<<"$closing")))
}

run_pair() { # "TORCH TORCH_NPU"
	local label=${1/ /,} home=$cache/real/${1/ /-} made="" status
	say "torch ${1/ / with torch_npu }"
	[ -f "$home/unpacked" ] || made=1
	# shellcheck disable=SC2086
	"$top/scripts/real-env.sh" --build "$build" $1 2>&1 >"$out" | tee "$log" >&2
	status=${PIPESTATUS[0]}
	[ "$made" ] && mine+=("$home")
	discard_but "${made:-0}"
	if [ "$status" = 77 ]; then
		line "skip $label environment ($(tail -n 1 "$log"))"
		skipped=$((skipped + 1))
		return
	elif [ "$status" != 0 ]; then
		line "FAIL $label environment ($(tail -n 1 "$log"))"
		failed=$((failed + 1))
		return
	fi
	python3 "$top/tests/real/run.py" --retry --run "$(<"$out")" --build "$build" --label "$label " "${names[@]}" |
		tee "$log" | grep --line-buffered -vE '^[0-9]+ passed, ' | tee -a "$lines"
	status=${PIPESTATUS[0]}
	if ! add_counts; then
		line "FAIL $label runner (ended with status $status)"
		failed=$((failed + 1))
	fi
}

# Pairs against groups of tests: passed/failed/skipped.
table() {
	awk '{ split($3, t, "."); g = t[1]; key = $2 SUBSEP g
		if (!(g in known)) { known[g] = 1; groups[++n] = g }
		if (!($2 in met)) { met[$2] = 1; pairs[++m] = $2; if (length($2) > wide) wide = length($2) }
		count[key, $1]++ }
	END {
		printf "%-*s", wide, "passed/failed/skipped"
		for (j = 1; j <= n; j++) printf "  %-11s", groups[j]
		print ""
		for (i = 1; i <= m; i++) {
			printf "%-*s", wide, pairs[i]
			for (j = 1; j <= n; j++) {
				k = pairs[i] SUBSEP groups[j]
				s = (count[k, "ok"] + 0) "/" (count[k, "FAIL"] + 0) "/" (count[k, "skip"] + 0)
				printf "  %-11s", s == "0/0/0" ? "-" : s
			}
			print ""
		}
	}' "$lines" | sed 's/ *$//'
}

for pair in "${pairs[@]}"; do
	run_pair "$pair"
done
discard_but 0

# The derivation of hidden functions in released libraries.
if [ ${#names[@]} -eq 0 ]; then
	say "derivation in released libraries"
	which=(--ci)
	[ "$all" ] && which=(--all)
	MEMTAP=$build/memtap "$top/tests/real/derive-all.sh" ${discard:+--discard} "${which[@]}" | tee "$log" |
		grep -vE '^[0-9]+ passed, '
	if ! add_counts; then
		echo "FAIL derivation (no closing line)"
		failed=$((failed + 1))
	fi
fi
if [ ${#pairs[@]} -gt 1 ]; then
	say "all pairs"
	table
	grep -E '^(FAIL|skip) ' "$lines" | cut -c 1-200
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
