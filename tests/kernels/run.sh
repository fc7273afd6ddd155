#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Boots Debian cloud kernels in QEMU and runs the hermetic live test in each.
set -euo pipefail

usage() {
	cat <<'E'
Usage: tests/kernels/run.sh [--build DIR]... [--jobs N] [--lenient] [--keep] [KERNEL...]

KERNEL is RELEASE/ARCH: 5.10, 6.1 or 6.12 / amd64 or arm64 (default: all six).
The kernel packages come from Debian and are kept in ${MEMTAP_CACHE:-~/.cache/memtap}/kernels.
Prints one line a kernel: ok, FAIL or skip with the reason, and a closing line of the counts.
A kernel is left out where its build folder, its emulator or its package is missing, unless it is
named without --lenient: then that is a failure, as is a root file system that cannot be made.

  --build DIR  a build folder with memtap and the simulated stack, one for each
               architecture (default: build and build-aarch64 if it is there)
  --jobs N     machines side by side (default: 2)
  --lenient    leave out named ones, too
  --keep       keep the work folder, and say where it is
E
}

here=$(dirname "$(readlink -f "$0")")
top=$(readlink -f "$here/../..")
# shellcheck source=tests/kernels/fetch.sh
. "$here/fetch.sh"
# shellcheck source=tests/kernels/root.sh
. "$here/root.sh"
builds=() kernels=() said=() jobs=2 keep='' named='' lenient=''
while [ $# -gt 0 ]; do
	case $1 in
	--build) builds+=("$(readlink -f "$2")"); shift ;;
	--jobs) jobs=$2; shift ;;
	--lenient) lenient=1 ;;
	--keep) keep=1 ;;
	-h | --help) usage; exit 0 ;;
	-*) usage >&2; exit 2 ;;
	*) kernels+=("$1") ;;
	esac
	shift
done
[ ${#kernels[@]} = 0 ] || [ "$lenient" ] || named=1
[ ${#builds[@]} -gt 0 ] || builds=("$top"/build "$top"/build-aarch64)
# The slowest first: they end together.
[ ${#kernels[@]} -gt 0 ] || kernels=(6.1/amd64 6.1/arm64 6.12/amd64 6.12/arm64 5.10/amd64 5.10/arm64)
for k in "${kernels[@]}"; do
	[[ $k =~ ^(5\.10|6\.1|6\.12)/(amd64|arm64)$ ]] || { echo "$k: no kernel of this matrix" >&2; usage >&2; exit 2; }
done
cache=${MEMTAP_CACHE:-$HOME/.cache/memtap}/kernels
mkdir -p "$cache"
work=$(mktemp -d)
# shellcheck disable=SC2317 # called by the trap
tidy() {
	local left
	mapfile -t left < <(jobs -pr)
	[ ${#left[@]} = 0 ] || { kill "${left[@]}"; wait; }
	[ "$keep" ] || rm -rf "$work"
}
trap tidy EXIT
trap 'exit 1' INT TERM
[ -z "$keep" ] || echo "work folder: $work"

emulator_of() { # ARCH
	case $1 in
	amd64) echo qemu-system-x86_64 ;;
	arm64) echo qemu-system-aarch64 ;;
	esac
}

# Run a machine to its end, or until it has neither said nor sent anything for four minutes.
attend() { # LOG BACK COMMAND...
	local log=$1 back=$2 size last='' idle=0
	shift 2
	"$@" </dev/null >"$log" 2>&1 &
	machine=$!
	while kill -0 "$machine" 2>/dev/null; do
		sleep 1
		size=$(stat -c %s "$log" "$back" 2>/dev/null || true)
		idle=$((idle + 1))
		[ "$size" = "$last" ] || idle=0
		last=$size
		[ $idle -lt 240 ] || kill "$machine"
	done
	wait "$machine" || true
	machine=
}

boot() { # IMAGE ARCH OUT
	local q con=ttyS0 try
	q=("$(emulator_of "$2")" -cpu max)
	# 6.1x kernels do not start on every feature that "max" pretends to have.
	[[ $1 == *-6.1[0-9]* ]] && q=("$(emulator_of "$2")" -cpu Haswell)
	q+=(-serial mon:stdio -serial "file:$3.b64")
	if [ "$2" = arm64 ]; then
		# One PL011, the console; what comes back takes a 16550 on the PCI bus.
		q=("$(emulator_of "$2")" -M virt -cpu cortex-a72 -serial mon:stdio
			-chardev "file,id=back,path=$3.b64" -device "pci-serial,chardev=back")
		con=ttyAMA0
	fi
	for try in 1 2; do
		rm -rf "$3" "$3.b64"
		mkdir -p "$3"
		attend "$3.log" "$3.b64" "${q[@]}" -m 1024 -smp 2 -nographic -nic none -no-reboot -kernel "$1" \
			-initrd "$work/initrd-$2.gz" -append "console=$con quiet panic=-1"
		tr -d '\r' <"$3.b64" | base64 -d 2>/dev/null | tar xz -C "$3" 2>/dev/null && return 0
		# Emulated kernels now and then stop before init, or lose a timer.
		echo "     (attempt $try did not finish: $(tr -d '\r' <"$3.log" | grep -aE '^(INIT|CHECKED|RUN|TESTS)|panic' | tail -n 1))"
		mv "$3.log" "$3.log.$try"
	done
	tr -d '\r' <"$3.log.2" | tail -n 40 | sed 's/^/    /'
	return 1
}

# Reason to leave a kernel out, or nothing.
why_not() { # ARCH
	command -v "$(emulator_of "$1")" >/dev/null || { echo "no $(emulator_of "$1")"; return; }
	[ -e "$work/initrd-$1.gz" ] || echo "no build folder for it"
}

one() { # RELEASE ARCH OUT: prints what is to be said, the last line with the verdict
	local image why
	if [ -e "$work/no-root-$2" ]; then
		sed 's/^/    /' "$work/no-root-$2"
		echo "FAIL kernel $1/$2 (its root file system cannot be made, as above)"
		return
	fi
	why=$(why_not "$2")
	[ -z "$why" ] && { image=$(fetch_kernel "$1" "$2") || why="its package cannot be had here"; }
	if [ -n "$why" ]; then
		[ -z "$named" ] && echo "skip kernel $1/$2 ($why)" || echo "FAIL kernel $1/$2 ($why)"
		return
	fi
	if boot "$image" "$2" "$3" && python3 "$here/judge.py" "$1" "$2" "$3" "$work/root-$2"; then
		echo "ok   kernel $1/$2"
	else
		echo "FAIL kernel $1/$2"
	fi
}

for build in "${builds[@]}"; do
	arch=$(arch_of "$build/memtap") || continue
	# Outside of any condition: else bash goes on behind what fails in it.
	set +e
	(set -e; make_root "$arch" "$build") >"$work/making-$arch" 2>&1
	made=$?
	set -e
	[ $made = 0 ] && [ -s "$work/initrd-$arch.gz" ] || mv "$work/making-$arch" "$work/no-root-$arch"
done
for k in "${kernels[@]}"; do
	while [ "$(jobs -pr | wc -l)" -ge "$jobs" ]; do wait -n || true; done
	said+=("$work/said-${k%/*}-${k#*/}")
	(
		machine=
		trap '[ -z "$machine" ] || kill "$machine"' EXIT
		trap 'exit 1' TERM
		one "${k%/*}" "${k#*/}" "$work/${k%/*}-${k#*/}" >"${said[-1]}" 2>&1 || true
		flock "$work" cat "${said[-1]}"
	) &
done
wait
# The verdict is the last line of each.
verdicts=$(tail -qn 1 "${said[@]}")
count() { grep -c "^$1 " <<<"$verdicts" || true; }
echo "$(count ok) passed, $(count FAIL) failed, $(count skip) skipped"
[ "$(count FAIL)" = 0 ] && [ $(($(count ok) + $(count skip))) = ${#kernels[@]} ]
