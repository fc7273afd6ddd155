#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Released torch and torch_npu wheels, or MindSpore's, on the simulated CANN, kept in a cache: prints the path of a `run`.
set -uo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

build=$top/build
PYTHON=${PYTHON:-}
args=()
mindspore=
while [ $# -gt 0 ]; do
	case $1 in
	--build) build=$(readlink -f "$2") || build=$2; shift ;;
	--mindspore) mindspore=$2; shift ;;
	-h | --help)
		cat <<'X'
Usage: scripts/real-env.sh [--build DIR] TORCH TORCH_NPU
       scripts/real-env.sh [--build DIR] --mindspore VERSION

Makes an environment of these two releases (e.g. 2.7.1 2.7.1) in
${MEMTAP_CACHE:-~/.cache/memtap}/real/TORCH-TORCH_NPU, downloading the wheels once,
and prints the path of a wrapper that starts Python in it:

  $(scripts/real-env.sh 2.7.1 2.7.1) program.py

With --mindspore it is that release (2.10.0) with its Ascend plugin, in
.../real/mindspore-VERSION.

--build DIR   take the simulated CANN from this build folder (build; built if missing)
PYTHON=…      the interpreter to try first (then python3.11, python3, python3.10,
              python3.12, python3.9, python3.13, python3.8, until one has wheels)

Exit status: 0; 1 on errors; 77 when it cannot be had here (no package index answers,
no wheel for any Python that is here), with the reason as the last line on stderr.
X
		exit 0
		;;
	-*) echo "real-env.sh: unknown option '$1' (--help tells)" >&2; exit 2 ;;
	*) args+=("$1") ;;
	esac
	shift
done
if [ "$mindspore" ] && [ ${#args[@]} -eq 0 ]; then
	home=$cache/real/mindspore-$mindspore
	make=(mkmindspore.py "$home" --version "$mindspore")
elif ! [ "$mindspore" ] && [ ${#args[@]} -eq 2 ]; then
	home=$cache/real/${args[0]}-${args[1]}
	make=(getwheel.py "${args[@]}" "$home")
else
	echo "usage: real-env.sh [--build DIR] {TORCH TORCH_NPU | --mindspore VERSION}" >&2
	exit 2
fi

# Debian's python3 comes without pip.
if ! [ "$PYTHON" ] && ! python3 -m pip --version >/dev/null 2>&1; then
	need_packages python3 python3-pip >&2 || { echo "python3 has no pip, and it cannot be installed" >&2; exit 77; }
fi
if ! [ -f "$build/tests/sim/cann/lib64/libascend_hal.so" ]; then
	# shellcheck disable=SC2086
	if ! need_packages $packages_build >&2 || ! build_in "$build" -Dtests=false >&2; then
		exit 1
	fi
fi
need_packages g++ binutils >&2 || exit 1

mkdir -p "$home" || exit 1
exec 9>"$home/lock" || exit 1
flock 9
reason="no python3 with pip here"
[ -f "$home/unpacked" ] && : "${PYTHON:=$(cut -d ' ' -f 2 "$home/unpacked")}"
for py in $PYTHON python3.11 python3 python3.10 python3.12 python3.9 python3.13 python3.8; do
	"$py" -m pip --version >/dev/null 2>&1 || continue
	out=$("$py" "$top/tests/sim/${make[0]}" "${make[@]:1}" --build "$build/tests/sim" 9>&-)
	case $? in
	0)
		tail -n 1 <<<"$out"
		exit 0
		;;
	77) reason=$(tail -n 1 <<<"$out") ;;
	*) exit 1 ;;
	esac
	case $reason in *"index answers"*) break ;; esac
done
echo "$reason" >&2
exit 77
