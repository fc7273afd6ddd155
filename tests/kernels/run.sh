#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Boots Debian cloud kernels in QEMU and runs the hermetic live test in each.
set -euo pipefail

usage() {
	cat <<'E'
Usage: tests/kernels/run.sh [--build DIR]... [--jobs N] [--keep] [KERNEL...]

KERNEL is RELEASE/ARCH: 5.10, 6.1 or 6.12 / amd64 (default: all of them).
The kernel packages come from Debian and are kept in ${MEMTAP_CACHE:-~/.cache/memtap}/kernels.
Prints one line a kernel: ok, FAIL or skip with the reason, and a closing line of the counts.

  --build DIR  a build folder with memtap and the simulated stack (default: build)
  --jobs N     machines side by side (default: 2)
  --keep       keep the work folder, and say where it is
E
}

here=$(dirname "$(readlink -f "$0")")
top=$(readlink -f "$here/../..")
# shellcheck source=tests/kernels/fetch.sh
. "$here/fetch.sh"
# shellcheck source=tests/kernels/root.sh
. "$here/root.sh"
builds=() kernels=() said=() jobs=2 keep=
while [ $# -gt 0 ]; do
	case $1 in
	--build) builds+=("$(readlink -f "$2")"); shift ;;
	--jobs) jobs=$2; shift ;;
	--keep) keep=1 ;;
	-h | --help) usage; exit 0 ;;
	-*) usage >&2; exit 2 ;;
	*) kernels+=("$1") ;;
	esac
	shift
done
[ ${#builds[@]} -gt 0 ] || builds=("$top/build")
# The slowest first: they end together.
[ ${#kernels[@]} -gt 0 ] || kernels=(6.1/amd64 6.12/amd64 5.10/amd64)
for k in "${kernels[@]}"; do
	[[ $k =~ ^(5\.10|6\.1|6\.12)/amd64$ ]] || { echo "$k: no kernel of this matrix" >&2; usage >&2; exit 2; }
done
cache=${MEMTAP_CACHE:-$HOME/.cache/memtap}/kernels
mkdir -p "$cache"
work=$(mktemp -d)
[ "$keep" ] && echo "work folder: $work" || trap 'rm -rf "$work"' EXIT

boot() { # IMAGE ARCH OUT
	local q=(qemu-system-x86_64 -cpu max) try
	# 6.1x kernels do not start on every feature that "max" pretends to have.
	[[ $1 == *-6.1[0-9]* ]] && q=(qemu-system-x86_64 -cpu Haswell)
	for try in 1 2; do
		rm -f "$3.b64"
		timeout 240 "${q[@]}" -m 1024 -smp 2 -nographic -no-reboot -kernel "$1" -initrd "$work/initrd-$2.gz" \
			-serial mon:stdio -serial "file:$3.b64" -append "console=ttyS0 quiet panic=-1" \
			</dev/null >"$3.log" 2>&1 || true
		grep -q 'TESTS-RUN' "$3.log" && return 0
		# Emulated kernels now and then stop before init, or lose a timer.
		echo "     (attempt $try did not finish: $(tr -d '\r' <"$3.log" | grep -aE 'INIT|CHECKED|RUN|panic' | tail -n 1))"
	done
	return 1
}

# Reason to leave a kernel out, or nothing.
why_not() { # ARCH
	command -v qemu-system-x86_64 >/dev/null || { echo "no QEMU for it"; return; }
	[ -e "$work/initrd-$1.gz" ] || echo "no build for it, or no busybox to be had"
}

one() { # RELEASE ARCH OUT: prints what is to be said, the last line with the verdict
	local image why
	why=$(why_not "$2")
	[ -z "$why" ] && { image=$(fetch_kernel "$1" "$2") || why="its package cannot be had here"; }
	if [ -n "$why" ]; then
		echo "skip kernel $1/$2 ($why)"
		return
	fi
	mkdir -p "$3"
	if boot "$image" "$2" "$3" && tr -d '\r' <"$3.b64" | base64 -d 2>/dev/null | tar xz -C "$3" 2>/dev/null &&
		python3 "$here/judge.py" "$1" "$2" "$3"; then
		echo "ok   kernel $1/$2"
	else
		tr -d '\r' <"$3.log" 2>/dev/null | tail -n 40 | sed 's/^/    /'
		echo "FAIL kernel $1/$2"
	fi
}

for build in "${builds[@]}"; do
	arch=$(arch_of "$build/memtap") && make_root "$arch" "$build" || echo "$build: no root file system made of it" >&2
done
for k in "${kernels[@]}"; do
	while [ "$(jobs -pr | wc -l)" -ge "$jobs" ]; do wait -n || true; done
	said+=("$work/said-${k%/*}-${k#*/}")
	{
		one "${k%/*}" "${k#*/}" "$work/${k%/*}-${k#*/}" >"${said[-1]}" 2>&1 || true
		flock "$work" cat "${said[-1]}"
	} &
done
wait
# The verdict is the last line of each.
verdicts=$(tail -qn 1 "${said[@]}")
count() { grep -c "^$1 " <<<"$verdicts" || true; }
echo "$(count ok) passed, $(count FAIL) failed, $(count skip) skipped"
[ "$(count FAIL)" = 0 ] && [ $(($(count ok) + $(count skip))) = ${#kernels[@]} ]
