#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Traces released torch + torch_npu wheels, and MindSpore's, on the simulated CANN; rows must equal their own account.
set -uo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

build='' aarch64='' all='' mindspore=''
pairs=() kernels=() names=()
while [ $# -gt 0 ]; do
	case $1 in
	--pair) pairs+=("${2/,/ }"); shift ;;
	--mindspore) mindspore=1 ;;
	--build) build=$(readlink -f "$2") || build=$2; shift ;;
	--aarch64) aarch64=1 ;;
	--kernel) kernels+=("$2"); shift ;;
	--all) all=1 ;;
	-h | --help)
		cat <<'X'
Usage: scripts/test-real.sh [--pair TORCH,TORCH_NPU]... [--mindspore] [--build DIR] [NAME...]
       scripts/test-real.sh --aarch64 [--pair TORCH,TORCH_NPU]... [--kernel RELEASE]...
                            [--all] [--build DIR] [NAME...]

Runs tests/real for each pair of releases (2.7.1,2.7.1) on memtap and the simulated
CANN of a build folder (build; built if missing). NAME selects tests by substring.
Wheels are downloaded once (scripts/real-env.sh). Prints one line a test and a
closing line; exit status 1 if a test failed.

--mindspore       MindSpore 2.10.0 (tests/real/mindspore.sh); without a pair, it alone
--aarch64         in an emulated aarch64 machine, with a cross build (build-aarch64); the
                  core tests, without NAME. The machine is made and saved once for a pair and
                  a kernel (scripts/real-machine.sh: 2 to 5 minutes, 1.5 GB in the cache)
--kernel RELEASE  boot Debian's kernel 5.10, 6.1 or 6.12 there (6.1)
--all             there: the pairs 2.1.0,2.1.0.post8 2.7.1,2.7.1 2.14.0,2.14.0 on 6.1 and the
                  second one on 5.10 and 6.12
X
		exit 0
		;;
	-*) echo "test-real.sh: unknown option '$1' (--help tells)" >&2; exit 2 ;;
	*) names+=("$1") ;;
	esac
	shift
done
if [ ! "$aarch64" ] && [ "$all${kernels[*]}" ]; then
	echo "test-real.sh: --kernel and --all go with --aarch64 (--help tells)" >&2
	exit 2
elif [ "$all" ] && [ "${pairs[*]}${kernels[*]}" ]; then
	echo "test-real.sh: --all says which pairs and kernels; leave out --pair and --kernel" >&2
	exit 2
elif [ "$aarch64" ] && [ "$mindspore" ]; then
	echo "test-real.sh: --mindspore does not go with --aarch64 (--help tells)" >&2
	exit 2
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

# Make an environment by a command that prints it, then run the tests in it.
run_tests() { # LABEL OPTION COMMAND...
	local label=$1 option=$2 status where
	shift 2
	"$@" 2>&1 >"$out" | tee "$log" >&2
	status=${PIPESTATUS[0]}
	where=$(<"$out")
	if [ "$status" = 77 ]; then
		echo "skip $label ($(tail -n 1 "$log"))"
		skipped=$((skipped + 1))
		return
	elif [ "$status" != 0 ]; then
		echo "FAIL $label (no environment: $(tail -n 1 "$log"))"
		failed=$((failed + 1))
		return
	fi
	python3 "$top/tests/real/run.py" --retry "$option" "$where" --build "$build" --label "$label " "${names[@]}" |
		tee "$log" | grep --line-buffered -vE '^[0-9]+ passed, '
	status=${PIPESTATUS[0]}
	if ! add_counts; then
		echo "FAIL $label (the runner ended with status $status)"
		failed=$((failed + 1))
	fi
}

on_machine() { # KERNEL TORCH TORCH_NPU
	say "torch $2 with torch_npu $3 on aarch64, kernel $1"
	run_tests "$2,$3 aarch64 $1" --machine "$top/scripts/real-machine.sh" --build "$build" --kernel "$@"
}

if [ "$all" ]; then
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
		say "torch ${pair/ / with torch_npu }"
		# shellcheck disable=SC2086
		run_tests "${pair/ /,}" --run "$top/scripts/real-env.sh" --build "$build" $pair
	done
fi
if [ "$mindspore" ]; then
	say "MindSpore"
	"$top/tests/real/mindspore.sh" --build "$build" "${names[@]}" | tee "$log" | grep --line-buffered -vE '^[0-9]+ passed, '
	if ! add_counts; then
		echo "FAIL mindspore (no closing line)"
		failed=$((failed + 1))
	fi
fi
# The derivation of hidden functions on six released libraries.
if [ ${#names[@]} -eq 0 ] && [ ${#pairs[@]} -gt 0 ] && [ ! "$aarch64" ]; then
	say "derivation in released libraries"
	MEMTAP=$build/memtap "$top/tests/real/derive-all.sh" --ci | tee "$log" | grep -vE '^[0-9]+ passed, '
	if ! add_counts; then
		echo "FAIL derivation (no closing line)"
		failed=$((failed + 1))
	fi
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
