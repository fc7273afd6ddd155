#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Derives from released torch_npu wheels and compares with derivation.tsv, by build-id:
# derive-all.sh [--discard] [--ci | --all | VERSION[/ARCH]…]. The wheels come from the package index;
# --discard deletes each library that was not there before when it has been compared.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
memtap=${MEMTAP:-$here/../../build/memtap}
table=${MEMTAP_DERIVATION:-$here/derivation.tsv}
cache=${MEMTAP_CACHE:-$HOME/.cache/memtap}/wheels
ci=(2.1.0.post6/x86_64 2.3.1.post4/aarch64 2.7.1/x86_64 2.9.1/x86_64 2.9.1/aarch64 2.14.0/x86_64)
# Of the table; report_size is a column of it too, cfi_rows is not derived here.
keys=(generation report_off report_size layout call_sites malloc_vaddr free_vaddr block_ptr
      block_size fdes)
passed=0 failed=0 skipped=0

discard=
if [ "${1:-}" = --discard ]; then
	discard=1
	shift
fi
case ${1:---ci} in
--ci) wheels=("${ci[@]}") ;;
--all) mapfile -t wheels < <(awk -F'\t' 'NR > 1 { print $1 "/" $2 }' "$table") ;;
-*) echo "usage: $0 [--discard] [--ci | --all | VERSION[/ARCH]...]" >&2; exit 2 ;;
*) wheels=("$@") ;;
esac
if [ ! -x "$memtap" ]; then
	echo "SKIP: $memtap is not built"
	exit 77
fi

# The library of a wheel into the cache; the wheel itself is not kept.
fetch() { # VERSION ARCH FILE
	local dl tags=() t why
	[ -s "$3" ] && return 0
	mkdir -p "$(dirname "$3")" && dl=$(mktemp -d "$cache/dl-XXXXXX") || return 1
	for t in manylinux_2_17 manylinux2014 manylinux_2_24 manylinux_2_27 manylinux_2_28 \
		 manylinux_2_31 manylinux_2_34 manylinux_2_35; do
		tags+=(--platform "${t}_$2")
	done
	if ! why=$(python3 -m pip download -q --no-deps --only-binary=:all: --python-version 310 \
		   --implementation cp --abi cp310 "${tags[@]}" -d "$dl" "torch_npu==$1" 2>&1); then
		echo "SKIP $1/$2: cannot be downloaded: $(grep -m1 ERROR <<<"$why" | cut -c1-160)"
		rm -rf "$dl"
		return 1
	fi
	python3 - "$dl"/*.whl "$dl/lib" <<-'PY' && mv "$dl/lib" "$3"
	import shutil, sys, zipfile
	with zipfile.ZipFile(sys.argv[1]) as z, open(sys.argv[2], "wb") as out:
	    with z.open("torch_npu/lib/libtorch_npu.so") as lib:
	        shutil.copyfileobj(lib, out)
	PY
	rm -rf "$dl"
	[ -s "$3" ] || { echo "SKIP $1/$2: the wheel has no libtorch_npu.so"; return 1; }
}

declare -A got
for w in "${wheels[@]}"; do
	version=${w%%/*} arch=x86_64
	[[ $w == */* ]] && arch=${w##*/}
	lib=$cache/$version/$arch/libtorch_npu.so
	mkdir -p "$cache"
	made=
	[ -s "$lib" ] || made=1
	if ! fetch "$version" "$arch" "$lib"; then
		skipped=$((skipped + 1))
		continue
	fi
	text=$("$memtap" probes "$lib" --derive)
	status=$?
	[ -z "$discard" ] || [ -z "$made" ] || rm -f "$lib"
	if [ $status != 0 ]; then
		echo "FAIL $version/$arch: memtap probes failed"
		failed=$((failed + 1))
		continue
	fi
	got=()
	while read -r k v; do got[$k]=$v; done <<<"$text"
	line=$(awk -F'\t' -v id="${got[build_id]:-}" '$3 == id' "$table")
	if [ -z "$line" ]; then
		echo "SKIP $version/$arch: no expectation for build-id ${got[build_id]:-}"
		skipped=$((skipped + 1))
		continue
	fi
	IFS=$'\t' read -r _ _ _ "${keys[@]/#/w_}" _ <<<"$line"
	bad=
	for k in "${keys[@]}"; do
		ref=w_$k
		[ "${got[$k]:-}" = "${!ref}" ] || bad+=" $k=${got[$k]:-} (expected ${!ref})"
	done
	# A site that costs a second trap would be a regression: all releases have a cheap one.
	[ "${got[generation]}" != report ] || [ "${got[site_cost]}" = emulated ] ||
		bad+=" site_cost=${got[site_cost]}"
	if [ -n "$bad" ]; then
		echo "FAIL $version/$arch:$bad"
		failed=$((failed + 1))
	else
		echo "PASS $version/$arch (${got[elapsed_ms]} ms, ${got[fdes]} FDEs," \
		     "report at ${got[report_off]}+${got[site_delta]} ${got[site_insn]})"
		passed=$((passed + 1))
	fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] || exit 1
if [ "$passed" -eq 0 ]; then
	echo "SKIP: no library could be compared"
	exit 77
fi
