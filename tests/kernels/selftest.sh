#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What run.sh says where a part of it is missing: a failure is never left out. No kernel is booted.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0

# A build folder with a program, but without all that the machine needs; packages that are there.
arch=$(dpkg --print-architecture)
mkdir -p "$dir"/{build,none,bin} "$dir/kernels/busybox-$arch/bin" "$dir/kernels/python-$arch/usr"
cp /bin/true "$dir/build/memtap"
cp /bin/true "$dir/kernels/busybox-$arch/bin/busybox"
for emulator in qemu-system-x86_64 qemu-system-aarch64; do cp /bin/true "$dir/bin/$emulator"; done

expect() { # NAME STATUS LINE ARGUMENT...
	local name=$1 status=$2 line=$3 got
	shift 3
	MEMTAP_CACHE=$dir PATH=${path:-$dir/bin:$PATH} "$here/run.sh" "$@" >"$dir/out" 2>&1
	got=$?
	if [ "$got" = "$status" ] && grep -qF "$line" "$dir/out"; then
		echo "ok   kernels: $name"
		passed=$((passed + 1))
	else
		echo "FAIL kernels: $name (status $got)"
		sed 's/^/    /' "$dir/out"
		failed=$((failed + 1))
	fi
}

expect "no root file system, named" 1 "FAIL kernel 6.1/$arch (its root file system" --build "$dir/build" "6.1/$arch"
expect "no root file system" 1 "FAIL kernel 6.1/$arch (its root file system" --build "$dir/build"
expect "no build folder" 0 "skip kernel 6.1/$arch (no build folder for it)" --build "$dir/none"
expect "no build folder, named, lenient" 0 "skip kernel 6.1/$arch (no build folder for it)" --lenient --build "$dir/none" "6.1/$arch"
expect "no build folder, named" 1 "FAIL kernel 6.1/$arch (no build folder for it)" --build "$dir/none" "6.1/$arch"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
