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
# architecture, of its cross compiler, or from what was fetched.
put_libraries() { # ROOT ARCH FETCHED FILE...
	local root=$1 fetched=$3 triplet lib dir found todo
	triplet=$(triplet_of "$2")
	shift 3
	todo=("$@")
	mkdir -p "$root/lib/$triplet"
	while [ ${#todo[@]} -gt 0 ]; do
		found=()
		for lib in $(readelf -d "${todo[@]}" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u); do
			[ -e "$root/lib/$triplet/$lib" ] && continue
			for dir in "/lib/$triplet" "/usr/lib/$triplet" "/usr/$triplet/lib" "$fetched/lib/$triplet"; do
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

# Python, and the modules of the simulated stack built for it.
put_python() { # ROOT ARCH FETCHED
	local cc src=$top/tests/sim/src/python build=$work/modules-$2
	cc=$(triplet_of "$2")-gcc
	mkdir -p "$1/usr/lib" "$build/torch_npu" "$1/sim/python"
	cp "$3/bin/python3.11" "$1/bin/python3"
	cp -r "$3/lib/python3.11" "$1/usr/lib/"
	rm -rf "$1"/usr/lib/python3.11/{config-*,ensurepip,idlelib,lib2to3,pydoc_data,test,turtledemo,unittest}
	"$cc" -shared -fPIC -O2 -fvisibility=hidden -s "-I$3/include/python3.11" "-I$3/include" \
		-o "$build/mstx.so" "$src/mstx_module.c" -ldl || return 1
	"$cc" -shared -fPIC -O2 -fvisibility=hidden -s "-I$3/include/python3.11" "-I$3/include" \
		-o "$build/torch_npu/_C.so" "$src/npu_c_module.c" -ldl || return 1
	cp "$src/torch_npu_init.py" "$build/torch_npu/__init__.py"
	cp -r "$build/." "$1/sim/python/"
	cp "$top/tests/sim/sim_train.py" "$1/sim/"
}

# Pack $work/initrd-ARCH.gz from a build folder.
make_root() { # ARCH BUILD
	local root=$work/root-$1 busybox python files
	busybox=$(fetch_busybox "$1") && python=$(fetch_python "$1") || return 1
	mkdir -p "$root"/{proc,sys,dev,tmp,bin,etc,sim}
	cp "$busybox" "$root/bin/busybox"
	cp "$2/memtap" "$2/tests/kernels/"{emulated,stacks} "$2"/tests/live/{pywalk,cwalk} \
		"$top/tests/live/pystacks.py" "$root/bin/"
	echo nobody:x:65534:65534::/:/bin/sh >"$root/etc/passwd"
	# The simulated stack keeps its shape: it finds its libraries by $ORIGIN.
	(cd "$2/tests/sim" && find . \( -name '*.so' -o -name sim-train -o -name sim-ops -o -name sim-atb-82-1 \) -type f -print0 |
		cpio -0 -pdm --quiet "$root/sim")
	# As released, beside the same code with its symbols: these are the truth of the derivation.
	mkdir -p "$root/sim/torch_npu_stripped/lib"
	llvm-strip --strip-all -o "$root/sim/torch_npu_stripped/lib/libtorch_npu.so" \
		"$2/tests/sim/torch_npu_c_symtab/lib/libtorch_npu.so"
	put_python "$root" "$1" "$python" || return 1
	mapfile -t files < <(find "$root"/bin/{memtap,emulated,stacks,pywalk,cwalk,python3} "$root"/sim "$root"/usr/lib -type f)
	put_libraries "$root" "$1" "$python" "${files[@]}"
	put_loader "$root" "$root/bin/memtap" "$1"
	cp "$here/init.sh" "$root/init"
	chmod +x "$root/init"
	(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd-$1.gz"
}
