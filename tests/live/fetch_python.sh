#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A CPython that this machine's release does not have, from another suite of Debian, with its C library.
set -euo pipefail

case ${1:-} in
[0-9]*) ;;
*)
	echo "usage: fetch_python.sh 3.MINOR SUITE   prints the folder that it is in" >&2
	exit 2
	;;
esac
here=$(dirname "$(readlink -f "$0")")
cache=${MEMTAP_CACHE:-$HOME/.cache/memtap}/pythons
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/kernels/fetch.sh
. "$here/../kernels/fetch.sh"
keep=$cache/$1-$2
# With what ctypes and NumPy need: an older folder of the cache has it not.
if ! compgen -G "$keep/usr/lib/*/libffi.so.*" >/dev/null; then
	rm -rf "${keep:?}/usr"
	apt_for "$2" "$(dpkg --print-architecture)"
	ffi=$(apt-cache "${apt_opts[@]}" search --names-only '^libffi[0-9]*$' | awk '{print $1}' | head -n 1)
	keep_part usr "$keep" "python$1-minimal" "libpython$1-minimal" "libpython$1-stdlib" libc6 libgcc-s1 libexpat1 \
		zlib1g "$ffi" libstdc++6
fi
echo "$keep"
