#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds with and without sanitizers, runs all hermetic tests.
set -uo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
usage() {
	cat <<'X'
Usage: scripts/test.sh [PART...]

Installs what is missing, builds with and without sanitizers, runs all hermetic tests.
Prints one line a test and a closing line; exit status 1 if a test failed.
PART is one of (default: both, in this order)

first  builds, style, unit tests, fuzzing, live tests, two kernels
rest   four more kernels and clang-tidy; needs the builds of the first. In the gate (.ci/run)
       what would end too late is left out, and said so
X
}
parts=()
for part; do
	case $part in
	first | rest) parts+=("$part") ;;
	-h | --help) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
done
[ ${#parts[@]} -gt 0 ] || parts=(first rest)
cd "$top" || exit 1

passed=0 failed=0 skipped=0
ok() { echo "ok   $1"; passed=$((passed + 1)); }
bad() { echo "FAIL $1"; failed=$((failed + 1)); }
skip() { echo "skip $1 ($2)"; skipped=$((skipped + 1)); }

# Add the counts of a runner's closing line "N passed, N failed[, N skipped]".
add_counts() { # NAME STATUS LOG
	local line
	line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed' "$3" | tail -n 1)
	if [ -z "$line" ]; then
		tail -n 30 "$3"
		bad "$1: no closing line"
		return
	fi
	passed=$((passed + $(sed -E 's/^([0-9]+) passed.*/\1/' <<<"$line")))
	failed=$((failed + $(sed -E 's/.* ([0-9]+) failed.*/\1/' <<<"$line")))
	case $line in *skipped*) skipped=$((skipped + $(sed -E 's/.* ([0-9]+) skipped.*/\1/' <<<"$line"))) ;; esac
	[ "$2" = 0 ] || case $line in *" 0 failed"*) bad "$1: exit status $2" ;; esac
}

run_counted() { # NAME COMMAND...
	local name=$1 log status
	shift
	log=$(mktemp)
	say "$name"
	"$@" 2>&1 | tee "$log"
	status=${PIPESTATUS[0]}
	add_counts "$name" "$status" "$log"
	rm -f "$log"
}

run_units() { # BUILD NAME
	local log=$1/meson-logs/testlog.json name result
	local seen=0
	say "unit tests, $2"
	rm -f "$log"
	meson test -C "$1" --suite unit --no-rebuild --print-errorlogs >"$1/units.log" 2>&1 || tail -n 80 "$1/units.log"
	while read -r name result; do
		seen=1
		case $result in
		OK) ok "unit $name ($2)" ;;
		SKIP) skip "unit $name ($2)" "the test says so" ;;
		*) bad "unit $name ($2): $result" ;;
		esac
	done < <(python3 -c 'import json, sys
for line in open(sys.argv[1]):
    t = json.loads(line); print(t["name"].split()[-1], t["result"])' "$log")
	[ $seen = 1 ] || bad "unit tests ($2) did not run"
}

build_all() {
	say "building"
	if build_in build -Dtests=true -Dsim=true; then ok "build"; else bad "build"; fi
	if build_in build-asan -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 -Dsim=false -Dbpf_from="$top/build"; then
		ok "build with sanitizers"
	else
		bad "build with sanitizers"
	fi
	# shellcheck disable=SC2086
	if ! need_packages $packages_cross; then
		skip "cross build for aarch64" "its packages cannot be had here"
	elif build_in build-aarch64 --cross-file tests/cross-aarch64.ini -Dtests=false; then
		ok "cross build for aarch64"
	else
		bad "cross build for aarch64"
		rm -f build-aarch64/memtap # what is left of an older one is not to be booted
	fi
}

style() {
	local sources
	say "style"
	mapfile -t sources < <(git ls-files 'user/*.c' 'user/*.h' 'bpf/*.c' 'bpf/lib/*.h' 2>/dev/null)
	if [ ${#sources[@]} -eq 0 ]; then
		skip "clang-format" "no git here to list the sources"
	elif clang-format --dry-run -Werror "${sources[@]}" >build/format.log 2>&1; then
		ok "clang-format"
	else
		grep -m 20 error build/format.log
		bad "clang-format"
	fi
	if command -v shellcheck >/dev/null; then
		if shellcheck -x -S warning -e SC1091 scripts/*.sh tests/kernels/*.sh tests/real/*.sh tests/real/machine/*.sh .ci/run >build/shellcheck.log 2>&1; then
			ok "shellcheck"
		else
			head -n 30 build/shellcheck.log
			bad "shellcheck"
		fi
	else
		skip "shellcheck" "not installed"
	fi
	if LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 -Z man/*.[78] 2>&1 >/dev/null | grep .; then
		bad "man pages"
	else
		ok "man pages"
	fi
}

tidy() {
	local sources
	mapfile -t sources < <(git ls-files 'user/*.c' 2>/dev/null)
	if [ ${#sources[@]} -eq 0 ]; then
		skip "clang-tidy" "no git here to list the sources"
		return
	fi
	say "clang-tidy"
	if printf '%s\n' "${sources[@]}" | xargs -P 2 -n 12 clang-tidy --quiet -p build >build/tidy.log 2>&1; then
		ok "clang-tidy"
	else
		grep -m 20 -E 'warning|error' build/tidy.log
		bad "clang-tidy"
	fi
}

fuzz() {
	local target
	say "fuzzing, 5 s a target"
	for target in $(sed -n 's/^\([a-z]*\)) sources=.*/\1/p' tests/fuzz/run.sh); do
		tests/fuzz/run.sh "$target" 5 >build/fuzz.log 2>&1
		case $? in
		0) ok "fuzz $target" ;;
		77) skip "fuzz $target" "$(tail -n 1 build/fuzz.log)" ;;
		*) tail -n 30 build/fuzz.log; bad "fuzz $target" ;;
		esac
	done
}

kernels() { # RELEASE/ARCH...
	run_counted "kernels $*" tests/kernels/run.sh --lenient --build build --build build-aarch64 "$@"
}

first() {
	build_all
	style
	run_units build plain
	run_units build-asan sanitizers
	fuzz
	run_counted "live tests" python3 tests/live/run.py --build build --retry --time --jobs 3
	run_counted "live tests, sanitizers" python3 tests/live/run.py --build build-asan --sim build --retry --time --jobs 3 \
		layouts.c calls.python calls.mindspore files.db files.order files.odd stop. errors. later.import later.forked
	run_counted "kernels, what is missing" tests/kernels/selftest.sh
	# A kernel before each newer means, and one of each machine.
	kernels 6.1/amd64 5.10/arm64
}

# The gate has 50 minutes: what is left out there when it would end too late.
rest() {
	if late 34; then skip "kernels 5.10/amd64, 6.12/arm64" "$late"; else kernels 6.12/arm64 5.10/amd64; fi
	if late 42; then skip "clang-tidy" "$late"; else tidy; fi
	if late 34; then skip "kernels 6.1/arm64, 6.12/amd64" "$late"; else kernels 6.1/arm64 6.12/amd64; fi
}

# shellcheck disable=SC2086
need_packages $packages_build $packages_test || { bad "packages"; echo "$passed passed, $failed failed, $skipped skipped"; exit 1; }
for part in "${parts[@]}"; do $part; done

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
