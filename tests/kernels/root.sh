# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# The root file system of a test machine: memtap, the simulated stack, their libraries. Sourced.
#
# Wants $here and $work. Files of another architecture are looked at, never run: no ldd.

# Debian's name of the architecture that a file is for.
arch_of() { # FILE
	case $(readelf -h "$1" 2>/dev/null | sed -n 's/^ *Machine: *//p') in
	*X86-64*) echo amd64 ;;
	AArch64) echo arm64 ;;
	*) return 1 ;;
	esac
}

triplet_of() { # ARCH
	case $1 in
	amd64) echo x86_64-linux-gnu ;;
	arm64) echo aarch64-linux-gnu ;;
	esac
}

# Copy the libraries that files need, and those that these need, from the packages of the
# architecture or of its cross compiler.
put_libraries() { # ROOT ARCH FILE...
	local root=$1 triplet lib dir found todo
	triplet=$(triplet_of "$2")
	shift 2
	todo=("$@")
	mkdir -p "$root/lib/$triplet"
	while [ ${#todo[@]} -gt 0 ]; do
		found=()
		for lib in $(readelf -d "${todo[@]}" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u); do
			[ -e "$root/lib/$triplet/$lib" ] && continue
			for dir in "/lib/$triplet" "/usr/lib/$triplet" "/usr/$triplet/lib"; do
				[ -e "$dir/$lib" ] || continue
				cp -L "$dir/$lib" "$root/lib/$triplet/"
				found+=("$root/lib/$triplet/$lib")
				break
			done
		done
		todo=("${found[@]}")
	done
}

# The loader of a program, where the program asks for it.
put_loader() { # ROOT PROGRAM ARCH
	local path triplet
	path=$(readelf -l "$2" | sed -n 's/.*interpreter: \(.*\)\]/\1/p')
	triplet=$(triplet_of "$3")
	[ -n "$path" ] || return 0
	mkdir -p "$1$(dirname "$path")"
	[ -e "$1$path" ] || cp -L "/lib/$triplet/$(basename "$path")" "$1$path"
}

# Pack $work/initrd-ARCH.gz from a build folder.
make_root() { # ARCH BUILD
	local root=$work/root-$1 busybox files
	busybox=$(fetch_busybox "$1") || return 1
	mkdir -p "$root"/{proc,sys,dev,tmp,bin,etc,sim}
	cp "$busybox" "$root/bin/busybox"
	cp "$2/memtap" "$root/bin/memtap"
	# The simulated stack keeps its shape: it finds its libraries by $ORIGIN.
	(cd "$2/tests/sim" && find . \( -name '*.so' -o -name sim-train \) -type f -print0 |
		cpio -0 -pdm --quiet "$root/sim")
	mapfile -t files < <(find "$root/bin/memtap" "$root/sim" -type f)
	put_libraries "$root" "$1" "${files[@]}"
	put_loader "$root" "$root/bin/memtap" "$1"
	cp "$here/init.sh" "$root/init"
	chmod +x "$root/init"
	(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd-$1.gz"
}
