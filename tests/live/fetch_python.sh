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
if [ ! -d "$keep/usr" ]; then
	apt_for "$2" "$(dpkg --print-architecture)"
	keep_part usr "$keep" "python$1-minimal" "libpython$1-minimal" "libpython$1-stdlib" libc6 libgcc-s1 libexpat1 \
		zlib1g
fi
echo "$keep"
