#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Boots Debian cloud kernels in QEMU and runs the hermetic live test in each.
set -euo pipefail

usage() {
	cat <<'X'
Usage: tests/kernels/run.sh [--build DIR] [--keep] [KERNEL...]

KERNEL is RELEASE/ARCH, e.g. 5.10/amd64 (default: 5.10/amd64). The kernel package
comes from Debian, kept in ${MEMTAP_CACHE:-~/.cache/memtap}/kernels. Prints one line a
kernel: ok, FAIL or skip with the reason, and a closing line of the counts.
X
}

here=$(dirname "$(readlink -f "$0")")
top=$(readlink -f "$here/../..")
build=$top/build
keep=
kernels=()
while [ $# -gt 0 ]; do
	case $1 in
	--build) build=$(readlink -f "$2"); shift ;;
	--keep) keep=1 ;;
	-h | --help) usage; exit 0 ;;
	-*) usage >&2; exit 2 ;;
	*) kernels+=("$1") ;;
	esac
	shift
done
[ ${#kernels[@]} -gt 0 ] || kernels=(5.10/amd64)
cache=${MEMTAP_CACHE:-$HOME/.cache/memtap}/kernels
mkdir -p "$cache"
work=$(mktemp -d)
[ "$keep" ] && echo "work folder: $work" || trap 'rm -rf "$work"' EXIT

# Suite of Debian that carries a release.
suite_of() {
	case $1 in
	5.10) echo bullseye ;;
	6.1) echo bookworm ;;
	6.12) echo trixie ;;
	*) return 1 ;;
	esac
}

# Where this machine gets its Debian packages: the first source that apt knows.
mirror() {
	grep -hm1 -s '^URIs:' /etc/apt/sources.list.d/*.sources | awk '{print $2}' | grep . ||
		awk '$1 == "deb" {for (i = 2; i <= NF; i++) if ($i ~ /^[a-z]+:/) {print $i; exit}}' \
			/etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null
}

# Unpack the newest cloud kernel of a release; prints its folder.
fetch_kernel() {
	local rel=$1 arch=$2 suite apt pkg dir
	suite=$(suite_of "$rel") || return 1
	dir=$(ls -d "$cache/$rel-$arch"/boot 2>/dev/null) && { dirname "$dir"; return; }
	apt=$work/apt-$rel-$arch
	mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
	: >"$apt/status"
	echo "deb [arch=$arch signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) $suite main" >"$apt/sources"
	local o=(-o Dir::Etc::sourcelist="$apt/sources" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$apt/lists"
		-o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" -o APT::Architecture="$arch"
		-o APT::Architectures="$arch" -o APT::Sandbox::User=root)
	apt-get "${o[@]}" update -qq >&2 || return 1
	pkg=$(apt-cache "${o[@]}" search --names-only "^linux-image-${rel//./\\.}\\..*-cloud-$arch\$" |
		awk '{print $1}' | grep -v unsigned | sort -V | tail -n 1)
	[ -n "$pkg" ] || return 1
	(cd "$work" && apt-get "${o[@]}" download -qq "$pkg" >&2 && dpkg -x "$pkg"_*.deb "$work/k" && rm -f "$pkg"_*.deb) || return 1
	mkdir -p "$cache/$rel-$arch"
	cp -r "$work/k/boot" "$cache/$rel-$arch/"
	rm -rf "$work/k"
	echo "$cache/$rel-$arch"
}

# A file and the libraries that it needs, at the same places below $root.
put() {
	local f
	for f in "$@"; do
		mkdir -p "$root$(dirname "$f")"
		cp -L "$f" "$root$f"
		# A static program has none: ldd then fails.
		{ ldd "$f" 2>/dev/null || true; } | awk '$2 == "=>" && $3 ~ /^\// {print $3} $1 ~ /^\/.*ld-/ {print $1}' |
			while read -r lib; do
				[ -e "$root$lib" ] || { mkdir -p "$root$(dirname "$lib")"; cp -L "$lib" "$root$lib"; }
			done
	done
}

make_root() {
	local f
	root=$work/root
	rm -rf "$root"
	mkdir -p "$root"/{proc,sys,dev,tmp,bin,etc,sim}
	put /bin/busybox "$build/memtap"
	mv "$root$build/memtap" "$root/bin/memtap"
	# The simulated stack keeps its shape: it finds its libraries by $ORIGIN.
	(cd "$build/tests/sim" && find . \( -name '*.so' -o -name sim-train \) -type f -print0 |
		cpio -0 -pdm --quiet "$root/sim")
	while IFS= read -r f; do
		# A static program has none: ldd then fails.
		{ ldd "$f" 2>/dev/null || true; } | awk '$2 == "=>" && $3 ~ /^\/(lib|usr)/ {print $3}'
	done < <(find "$build/tests/sim" \( -name '*.so' -o -name sim-train \) -type f) | sort -u |
		while read -r lib; do
			[ -e "$root$lib" ] || { mkdir -p "$root$(dirname "$lib")"; cp -L "$lib" "$root$lib"; }
		done
	cp "$here/init.sh" "$root/init"
	chmod +x "$root/init"
	(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd.gz"
}

boot() { # KERNEL ARCH OUT
	local q=(qemu-system-x86_64 -cpu max) con=ttyS0 try
	[ "$2" = arm64 ] && { q=(qemu-system-aarch64 -M virt -cpu cortex-a72); con=ttyAMA0; }
	# 6.1x kernels do not start on every feature that "max" pretends to have.
	[[ $1 == *-6.1[0-9]* ]] && [ "$2" = amd64 ] && q=(qemu-system-x86_64 -cpu Haswell)
	for try in 1 2; do
		rm -f "$3.tar.gz.b64"
		timeout 150 "${q[@]}" -m 1024 -smp 2 -nographic -no-reboot -kernel "$1" -initrd "$work/initrd.gz" \
			-serial mon:stdio -serial "file:$3.tar.gz.b64" \
			-append "console=$con quiet panic=-1 ${MEMTAP_GUEST:+memtap=$MEMTAP_GUEST}" \
			</dev/null >"$3.log" 2>&1 || true
		grep -q 'TESTS-RUN' "$3.log" && return 0
		# Emulated kernels now and then stop before init, or lose a timer.
		echo "     (attempt $try did not finish: $(tr -d '\r' <"$3.log" | grep -aE 'INIT|CHECKED|RUN|panic' | tail -n 1))"
	done
	return 1
}

passed=0 failed=0 skipped=0
make_root
for k in "${kernels[@]}"; do
	rel=${k%/*} arch=${k#*/}
	if ! command -v "qemu-system-$([ "$arch" = arm64 ] && echo aarch64 || echo x86_64)" >/dev/null; then
		echo "skip kernel $k (no QEMU for it)"
		skipped=$((skipped + 1))
		continue
	fi
	if ! dir=$(fetch_kernel "$rel" "$arch"); then
		echo "skip kernel $k (its package cannot be had here)"
		skipped=$((skipped + 1))
		continue
	fi
	out=$work/out-$rel-$arch
	mkdir -p "$out"
	if boot "$(ls "$dir"/boot/vmlinuz-* | tail -n 1)" "$arch" "$out" &&
		tr -d '\r' <"$out.tar.gz.b64" | base64 -d 2>/dev/null | tar xz -C "$out" 2>/dev/null &&
		python3 "$here/judge.py" "$rel" "$arch" "$out"; then
		echo "ok   kernel $k"
		passed=$((passed + 1))
	else
		echo "FAIL kernel $k"
		tr -d '\r' <"$out.log" | tail -n 40 | sed 's/^/    /'
		failed=$((failed + 1))
	fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
