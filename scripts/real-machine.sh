#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An emulated aarch64 machine that has imported released wheels, saved in the cache: prints its folder.
set -uo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

build=$top/build-aarch64
release=6.1
args=()
while [ $# -gt 0 ]; do
	case $1 in
	--build) build=$(readlink -f "$2") || build=$2; shift ;;
	--kernel) release=$2; shift ;;
	-h | --help)
		cat <<'X'
Usage: scripts/real-machine.sh [--build DIR] [--kernel RELEASE] TORCH TORCH_NPU

Makes an aarch64 machine for QEMU with these two releases (e.g. 2.7.1 2.7.1) on the
simulated CANN, boots it, imports the framework and saves its state, all in
${MEMTAP_CACHE:-~/.cache/memtap}/real/aarch64-TORCH-TORCH_NPU, and prints the folder
that tests/real/run.py --machine takes. What is there already is used again.

--build DIR       take the simulated CANN from this cross build (build-aarch64; made if missing)
--kernel RELEASE  Debian's kernel to boot: 5.10, 6.1 or 6.12 (6.1)

Exit status: 0; 1 on errors; 77 when it cannot be had here (no package index answers,
no wheel for aarch64, no QEMU), with the reason as the last line on stderr.
X
		exit 0
		;;
	-*) echo "real-machine.sh: unknown option '$1' (--help tells)" >&2; exit 2 ;;
	*) args+=("$1") ;;
	esac
	shift
done
[ ${#args[@]} -eq 2 ] || { echo "usage: real-machine.sh [--build DIR] [--kernel RELEASE] TORCH TORCH_NPU" >&2; exit 2; }
case $release in 5.10 | 6.1 | 6.12) ;; *) echo "real-machine.sh: no kernel $release: 5.10, 6.1 or 6.12" >&2; exit 2 ;; esac
torch=${args[0]} torch_npu=${args[1]}

not_here() { echo "$*" >&2; exit 77; }
fail() { echo "$*" >&2; exit 1; }

# shellcheck disable=SC2086
need_packages $packages_cross $packages_machine >&2 || not_here "packages of the machine or the cross build cannot be installed"
command -v qemu-system-aarch64 >/dev/null || not_here "no qemu-system-aarch64 here"
# Debian's python3 comes without pip.
python3 -m pip --version >/dev/null 2>&1 || need_packages python3 python3-pip >&2 ||
	not_here "python3 has no pip, and it cannot be installed"
if ! [ -f "$build/tests/sim/cann/lib64/libascend_hal.so" ]; then
	# shellcheck disable=SC2086
	need_packages $packages_build >&2 || exit 1
	build_in "$build" --cross-file "$top/tests/cross-aarch64.ini" -Dtests=false >&2 || exit 1
fi

home=$cache/real/aarch64-$torch-$torch_npu
mkdir -p "$home" || exit 1
exec 9>"$home/lock" || exit 1
flock 9
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
real=$cache
cache=$cache/kernels
mkdir -p "$cache"
# shellcheck source=tests/kernels/fetch.sh
. "$top/tests/kernels/fetch.sh"
# shellcheck source=tests/kernels/root.sh
. "$top/tests/kernels/root.sh"

# The wheels and the simulated CANN, as for a Python of Debian 12.
run=$(python3 "$top/tests/sim/getwheel.py" "$torch" "$torch_npu" "$home" --machine aarch64 --build "$build/tests/sim" 9>&-)
case $? in
0) sim=$(dirname "$(tail -n 1 <<<"$run")") ;;
77) not_here "$(tail -n 1 <<<"$run")" ;;
*) fail "the aarch64 environment of torch $torch cannot be made" ;;
esac

# Debian 12 for arm64 with Python: unpacked only, nothing of it runs here.
make_base() { # INTO
	local deb
	apt_for bookworm arm64 || return 1
	apt-get "${apt_opts[@]}" -y -qq --download-only --no-install-recommends install \
		python3.11 libstdc++6 libgomp1 libbpf1 libdw1 libcjson1 libsqlite3-0 libzstd1 zlib1g >&2 || return 1
	mkdir -p "$1" || return 1
	for deb in "$work"/apt-bookworm-arm64/cache/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$1" --exclude=./usr/share/doc --exclude=./usr/share/man \
			--exclude=./usr/share/locale --exclude='./usr/lib/*/gconv' || return 1
	done
}
base=$real/real/aarch64-base
exec 8>"$base.lock"
flock 8
if ! [ -d "$base" ]; then
	say "unpacking Debian 12 for arm64" >&2
	make_base "$work/base" || not_here "Debian's packages for arm64 cannot be had here"
	rm -rf "$base.new" && mv "$work/base" "$base.new" && mv "$base.new" "$base" || exit 1
fi
exec 8>&-
kernel=$(fetch_kernel "$release" arm64) || not_here "no kernel $release for arm64 can be had here"
modules=$(fetch_modules "$release" arm64 virtio virtio_ring virtio_mmio virtio_blk) ||
	not_here "no modules of kernel $release for arm64 can be had here"
busybox=$(fetch_busybox arm64) || not_here "no busybox for arm64 can be had here"

hash_of() { cat "$@" | sha256sum | cut -c 1-12; }

make_image() { # IMAGE
	local stage=$work/stage
	mkdir -p "$stage/opt/real" && cp -a "$base/." "$stage/" || return 1
	mkdir -p "$stage"/{proc,sys,dev,tmp,run,bin}
	cp "$busybox" "$stage/bin/busybox" && ln -sf busybox "$stage/bin/sh" || return 1
	ln -sf busybox "$stage/bin/dirname" && ln -sf busybox "$stage/bin/readlink" || return 1
	cp -a "$home/site" "$stage/opt/real/site" && cp -a "$sim" "$stage/opt/real/sim" || return 1
	rm -rf "$stage"/opt/real/sim/*/.src "$stage"/opt/real/sim/cann/lib64/.src "$stage"/opt/real/site/torch_npu/lib/*.a
	put_libraries "$stage" arm64 "$stage/usr" "$build/memtap" || return 1
	# The same version compiles for it; another would only make the import slower.
	if python3 -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
		python3 -m compileall -q -j 2 -s "$stage" -p / "$stage/opt/real/site" "$stage/usr/lib/python3.11" >/dev/null 2>&1
	fi
	mke2fs -q -t ext4 -O ^has_journal -d "$stage" "$1.new" "$(($(du -sm "$stage" | cut -f 1) * 11 / 10 + 100))M" >&2 &&
		mv "$1.new" "$1"
	rm -rf "$stage"
}

make_initrd() { # INTO
	local root=$work/initrd
	mkdir -p "$root"/{bin,modules,proc,sys,dev,root}
	cp "$busybox" "$root/bin/busybox" && cp "$top/tests/real/machine/agent.py" "$root/" || return 1
	cp "$modules"/*.ko "$root/modules/" 2>/dev/null # a kernel may have them all built in
	cp "$top/tests/real/machine/init.sh" "$root/init" && chmod +x "$root/init" || return 1
	(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$1"
}

# One image for all kernels; a saved machine for each kernel, emulator and what it runs.
image=$home/root-$(basename "$sim")-$(hash_of <(readelf -d "$build/memtap" | grep NEEDED) <(ls "$base") "$home/unpacked").img
folder=$home/machine-$release-$(hash_of <(echo "$image $kernel") <(qemu-system-aarch64 --version) \
	"$top"/tests/real/machine/{agent.py,init.sh,machine.py})
find "$home" -maxdepth 1 \( -name 'machine-*' -o -name 'root-*' \) -mtime +0 ! -path "$image" ! -path "$folder" \
	-exec rm -rf {} +
if ! [ -f "$image" ]; then
	say "making the image of the machine" >&2
	make_image "$image" || fail "the image of the machine cannot be made"
fi
if ! [ -f "$folder/state" ]; then
	rm -rf "$folder"
	mkdir -p "$folder"
	ln -f "$image" "$folder/root.img" && cp "$kernel" "$folder/vmlinuz" && make_initrd "$folder/initrd.gz" ||
		fail "the machine cannot be made"
	say "booting it on $release and importing the framework (about a minute)" >&2
	python3 "$top/tests/real/machine/machine.py" save "$folder" >&2 9>&- || fail "the machine does not get to its prompt"
fi
touch "$image" "$folder"
echo "$folder"
