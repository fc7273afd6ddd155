#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Traces released torch + torch_npu wheels, and MindSpore's, on the simulated CANN; rows must equal their own account.
set -uo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

# One pair for each generation of torch_npu, 5.0 to 26.1 and beyond (ascend-abi.md 2.7.1); those of one
# torch together, so that it is downloaded once.
generations=("2.1.0 2.1.0" "2.1.0 2.1.0.post3" "2.1.0 2.1.0.post6" "2.1.0 2.1.0.post8" "2.1.0 2.1.0.post10"
	     "2.1.0 2.1.0.post12" "2.1.0 2.1.0.post13" "2.7.1 2.7.1" "2.7.1 2.7.1.post2" "2.7.1 2.7.1.post4"
	     "2.7.1 2.7.1.post8" "2.14.0 2.14.0")
build='' aarch64='' all='' mindspore='' discard=''
pairs=() kernels=() names=()
while [ $# -gt 0 ]; do
	case $1 in
	--pair) pairs+=("${2/,/ }"); shift ;;
	--mindspore) mindspore=1 ;;
	--build) build=$(readlink -f "$2") || build=$2; shift ;;
	--aarch64) aarch64=1 ;;
	--kernel) kernels+=("$2"); shift ;;
	--all) all=1 ;;
	--discard) discard=1 ;;
	-h | --help)
		cat <<X
Usage: scripts/test-real.sh [--pair TORCH,TORCH_NPU]... [--all] [--discard] [--mindspore]
                            [--build DIR] [NAME...]
       scripts/test-real.sh --aarch64 [--pair TORCH,TORCH_NPU]... [--kernel RELEASE]...
                            [--all] [--build DIR] [NAME...]

Runs tests/real for each pair of releases (2.7.1,2.7.1) on memtap and the simulated
CANN of a build folder (build; built if missing). NAME selects tests by substring.
Wheels are downloaded once (scripts/real-env.sh). Prints one line a test and a
closing line; exit status 1 if a test failed.

--pair A,B        torch A with torch_npu B; may be repeated
--all             one pair for each generation of torch_npu, MindSpore, and without NAME the
                  derivation in all released libraries of tests/real/derivation.tsv instead of
                  six; a table of the results stands at the end. 5 minutes a pair on 2 cores:
                  ${generations[*]/ /,}
--discard         delete each environment that this run has made once the next one is there
                  (torch is taken over from it if it is the same), and each library as soon as
                  its derivation is compared. An environment takes 1 GB
--mindspore       MindSpore 2.10.0 (tests/real/mindspore.sh); without a pair, it alone
--aarch64         in an emulated aarch64 machine, with a cross build (build-aarch64); the
                  core tests, without NAME. The machine is made and saved once for a pair and
                  a kernel (scripts/real-machine.sh: 2 to 5 minutes, 1.5 GB in the cache)
--kernel RELEASE  boot Debian's kernel 5.10, 6.1 or 6.12 there (6.1)
--aarch64 --all   there: the pairs 2.1.0,2.1.0.post8 2.7.1,2.7.1 2.14.0,2.14.0 on 6.1 and the
                  second one on 5.10 and 6.12
X
		exit 0
		;;
	-*) echo "test-real.sh: unknown option '$1' (--help tells)" >&2; exit 2 ;;
	*) names+=("$1") ;;
	esac
	shift
done
if [ ! "$aarch64" ] && [ "${kernels[*]}" ]; then
	echo "test-real.sh: --kernel goes with --aarch64 (--help tells)" >&2
	exit 2
elif [ "$aarch64" ] && [ "$discard" ]; then
	echo "test-real.sh: --discard does not go with --aarch64 (--help tells)" >&2
	exit 2
elif [ "$all" ] && [ "${pairs[*]}${kernels[*]}" ]; then
	echo "test-real.sh: --all says which pairs and kernels; leave out --pair and --kernel" >&2
	exit 2
elif [ "$aarch64" ] && [ "$mindspore" ]; then
	echo "test-real.sh: --mindspore does not go with --aarch64 (--help tells)" >&2
	exit 2
fi
if [ "$all" ] && [ ! "$aarch64" ]; then
	pairs=("${generations[@]}") mindspore=1
fi
[ ${#pairs[@]} -gt 0 ] || [ "$mindspore" ] || pairs=("2.7.1 2.7.1")
[ ${#kernels[@]} -gt 0 ] || kernels=(6.1)
options=()
if [ "$aarch64" ]; then
	options=(--cross-file "$top/tests/cross-aarch64.ini" -Dtests=false)
	# shellcheck disable=SC2206
	packages_build+=" $packages_cross"
fi
build=${build:-$top/build${aarch64:+-aarch64}}

if ! [ -x "$build/memtap" ] || ! [ -d "$build/tests/sim" ]; then
	say "building"
	# shellcheck disable=SC2086
	if ! need_packages $packages_build || ! build_in "$build" "${options[@]}"; then
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

# Make an environment by a command that prints it, then run the tests in it.
run_tests() { # LABEL OPTION COMMAND...
	local label=$1 option=$2 status where
	shift 2
	"$@" 2>&1 >"$out" | tee "$log" >&2
	status=${PIPESTATUS[0]}
	where=$(<"$out")
	if [ "$status" = 77 ]; then
		line "skip $label environment ($(tail -n 1 "$log"))"
		skipped=$((skipped + 1))
		return
	elif [ "$status" != 0 ]; then
		line "FAIL $label environment ($(tail -n 1 "$log"))"
		failed=$((failed + 1))
		return
	fi
	python3 "$top/tests/real/run.py" --retry "$option" "$where" --build "$build" --label "$label " "${names[@]}" |
		tee "$log" | grep --line-buffered -vE '^[0-9]+ passed, ' | tee -a "$lines"
	status=${PIPESTATUS[0]}
	if ! add_counts; then
		line "FAIL $label runner (ended with status $status)"
		failed=$((failed + 1))
	fi
}

run_pair() { # "TORCH TORCH_NPU"
	local home=$cache/real/${1/ /-} made=""
	say "torch ${1/ / with torch_npu }"
	[ -f "$home/unpacked" ] || made=1
	# shellcheck disable=SC2086
	run_tests "${1/ /,}" --run "$top/scripts/real-env.sh" --build "$build" $1
	[ "$made" ] && mine+=("$home")
	discard_but "${made:-0}"
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

on_machine() { # KERNEL TORCH TORCH_NPU
	say "torch $2 with torch_npu $3 on aarch64, kernel $1"
	run_tests "$2,$3/aarch64/$1" --machine "$top/scripts/real-machine.sh" --build "$build" --kernel "$@"
}

if [ "$all" ] && [ "$aarch64" ]; then
	for pair in "2.7.1 2.7.1" "2.1.0 2.1.0.post8" "2.14.0 2.14.0"; do
		# shellcheck disable=SC2086
		on_machine 6.1 $pair
	done
	for kernel in 5.10 6.12; do
		on_machine $kernel 2.7.1 2.7.1
	done
elif [ "$aarch64" ]; then
	for pair in "${pairs[@]}"; do
		for kernel in "${kernels[@]}"; do
			# shellcheck disable=SC2086
			on_machine "$kernel" $pair
		done
	done
else
	for pair in "${pairs[@]}"; do
		run_pair "$pair"
	done
	discard_but 0
fi
if [ "$mindspore" ]; then
	say "MindSpore"
	"$top/tests/real/mindspore.sh" --build "$build" "${names[@]}" | tee "$log" |
		grep --line-buffered -vE '^[0-9]+ passed, ' | tee -a "$lines"
	if ! add_counts; then
		line "FAIL mindspore runner (no closing line)"
		failed=$((failed + 1))
	fi
fi
# The derivation of hidden functions on six released libraries.
if [ ${#names[@]} -eq 0 ] && [ ${#pairs[@]} -gt 0 ] && [ ! "$aarch64" ]; then
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
if [ "$all" ]; then
	say "results"
	table
	grep -E '^FAIL ' "$lines" | cut -c 1-300
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
