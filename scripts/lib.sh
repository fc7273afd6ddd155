# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts: what they need of Debian, where they keep things. Sourced.

top=$(readlink -f "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/..")
cache=${MEMTAP_CACHE:-${HOME:-/root}/.cache/memtap}

packages_build="gcc g++ libc6-dev clang llvm meson ninja-build pkg-config bpftool libbpf-dev libelf-dev
	libdw-dev libcjson-dev libsqlite3-dev libzydis-dev zlib1g-dev libzstd-dev
	liblzma-dev python3 python3-dev"
packages_test="libcriterion-dev libclang-rt-14-dev clang-format clang-tidy binutils cpio busybox-static dwz libdebuginfod1
	qemu-system-x86 bpftrace linux-perf procps shellcheck util-linux iproute2 xz-utils git man-db musl-tools"
packages_machine="e2fsprogs cpio xz-utils binutils python3"
packages_cross="qemu-system-arm gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libbpf-dev:arm64 libelf-dev:arm64
	libdw-dev:arm64 libcjson-dev:arm64 libsqlite3-dev:arm64 libzydis-dev:arm64 zlib1g-dev:arm64
	libzstd-dev:arm64 liblzma-dev:arm64"

say() {
	local at=''
	# The gate has its limit: where its minutes go.
	[ -z "${GATE_BEGAN:-}" ] || at=" [$((($(date +%s) - GATE_BEGAN) / 60)) min]"
	printf '== %s%s\n' "$*" "$at"
}

# Whether the gate runs for MINUTES already; $late says so then. Never outside of it.
late() { # MINUTES
	local minutes
	[ -n "${GATE_BEGAN:-}" ] || return 1
	minutes=$((($(date +%s) - GATE_BEGAN) / 60))
	late="the gate runs for $minutes minutes already, of its 50; scripts/test.sh has no limit"
	[ $minutes -ge "$1" ]
}

# Install what is missing of the named packages; needs root only if something is.
need_packages() {
	local p missing=()
	command -v dpkg-query >/dev/null || return 0 # not Debian: the build says what is missing
	for p in "$@"; do
		dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
	done
	[ ${#missing[@]} -eq 0 ] && return 0
	if [ "$(id -u)" != 0 ]; then
		echo "these packages are missing, and only root can install them: ${missing[*]}" >&2
		return 1
	fi
	say "installing ${missing[*]}"
	case " ${missing[*]} " in
	*:arm64\ *) dpkg --add-architecture arm64 ;;
	esac
	apt-get update -qq || true
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
		>"${TMPDIR:-/tmp}/memtap-apt.$$" 2>&1 || {
		tail -n 20 "${TMPDIR:-/tmp}/memtap-apt.$$" >&2
		rm -f "${TMPDIR:-/tmp}/memtap-apt.$$"
		return 1
	}
	rm -f "${TMPDIR:-/tmp}/memtap-apt.$$"
}

# Configure and build a folder: build_in DIR [MESON-OPTIONS...]. One that is there gets what it
# was configured without (quickstart.sh builds no tests), and loses nothing.
build_in() {
	local dir=$1 option more=()
	shift
	if [ -f "$dir/build.ninja" ]; then
		for option; do
			case $option in -D*=true) more+=("$option") ;; esac
		done
		[ ${#more[@]} -eq 0 ] || meson configure "$dir" "${more[@]}" >"$dir.log" 2>&1
	else
		meson setup "$dir" "$top" "$@" >"$dir.log" 2>&1
	fi || {
		cat "$dir.log" >&2
		return 1
	}
	rm -f "$dir.log"
	ninja -C "$dir" >"$dir/ninja.log" 2>&1 || {
		grep -E 'error|FAILED' -A 8 "$dir/ninja.log" | head -n 60 >&2
		return 1
	}
}
