#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds a fuzz target with clang's libFuzzer and runs it: run.sh NAME [SECONDS [SEED-FILE…]]
set -euo pipefail
name=$1 seconds=${2:-60}
shift; shift || true
here=$(cd "$(dirname "$0")" && pwd)
src=$(cd "$here/../.." && pwd)
clang=${CLANG:-$(command -v clang-14 || command -v clang)} || {
	echo "SKIP fuzz $name: no clang"
	exit 77
}
out=$(mktemp -d)
FUZZ_WORK=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d) # files of a target, in memory
export FUZZ_WORK
trap 'rm -rf "$out" "$FUZZ_WORK"' EXIT
mkdir "$out/corpus"
case $name in
elf) sources=("$src"/user/probe/{arg,derive,elf,elf_guard,elf_sym,fde,func,insn_a64,insn_x86,mspool,pymethod,scan,site,site_ret}.c
	      "$src"/user/base/*.c) libs=(-lZydis)
	if [ $# -eq 0 ]; then # small libraries that have all that is looked for
		seed() { # COMPILER NAME FLAG... FILE
			"$1" -O2 -fPIC -fno-inline -shared -nostdlib -w -Wl,-z,max-page-size=4096 \
				-o "$out/corpus/$1-$2" "${@:3}"
		}
		for cc in cc aarch64-linux-gnu-gcc; do
			# The other architecture's compiler need not be here. A seed that is not made is a failure.
			[ "$cc" = cc ] || command -v "$cc" >/dev/null || continue
			for layout in 0 3; do
				seed "$cc" "npu-$layout" -DLAYOUT=$layout "$src/tests/unit/data-derive/fake_npu.c"
			done
			seed "$cc" mspool "$src/tests/unit/data-derive/fake_mspool.c"
		done
	fi ;;
names) sources=("$src"/user/probe/{elf,elf_guard,elf_sym,fde}.c "$src"/user/target/root.c "$src"/user/base/*.c
	       "$src"/user/symbol/{debugfile,demangle,elfview,namestore,plt,symread,symtab}.c)
	libs=(-llzma -lzstd -l:libstdc++.a)
	if [ $# -eq 0 ]; then # all kinds of tables, and a name
		echo 'VER_1 { versioned; };' >"$out/map"
		for cxx in g++ aarch64-linux-gnu-g++; do
			(cd "$out" && "$cxx" -O2 -fPIC -shared -nostdlib -w -Wl,--build-id,-z,max-page-size=4096 \
				-Wl,--version-script=map -o "corpus/$cxx" \
				-x c++ "$src/tests/unit/data-symbol/names.cc" \
				-x assembler-with-cpp "$src/tests/unit/data-symbol/labels.S" &&
				xz <"corpus/$cxx" >mini.xz && "${cxx/%g++/strip}" -o stripped "corpus/$cxx" &&
				"${cxx/%g++/objcopy}" --add-section .gnu_debugdata=mini.xz \
					--add-gnu-debuglink="corpus/$cxx" stripped "corpus/$cxx-mini") 2>/dev/null || :
		done
		printf N4shop5scaleIiLi7EEET_S1_ >"$out/corpus/name"
	fi ;;
record) sources=("$src"/user/{model,base}/*.c "$src"/user/capture/{access,atb,decode,judge}.c "$src"/user/output/{attr,codec,text}.c) libs=() ;;
ldcache) sources=("$src"/user/target/{ldcache,root}.c "$src"/user/base/*.c) libs=()
	[ $# -gt 0 ] || head -c 65536 /etc/ld.so.cache >"$out/corpus/ld.so.cache" ;;
journal) sources=("$src"/user/{output,base}/*.c "$src"/user/model/row.c) libs=(-lsqlite3) ;;
python) sources=("$src"/user/symbol/py{code,decode,layout,line,mem,object,walk}.c "$src"/user/base/*.c) libs=() ;;
objects) sources=("$src"/user/objects/{gc,heap,module,tensor,type,value}.c "$src"/user/symbol/py{layout,mem,object}.c
	"$src"/user/base/*.c) libs=() ;;
dump) sources=("$src"/user/{input,base}/*.c "$src"/user/model/{row,texts}.c) libs=(-lsqlite3)
	if [ $# -eq 0 ]; then # rows of each form, and a db
		cp "$src/tests/unit/data/steps/leaks_dump.csv" "$out/corpus/"
		python3 - "$out/corpus" <<'EOF'
import sqlite3, sys
head = 'ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)\n'
rows = ['1,MSTX,Mark,"a,b "q" x",100,5,7,0,N/A,,,\n', '2,MALLOC,PTA,N/A,1,5,7,0,512,{allocation_id:1,addr:512,size:512},,\n',
        '3,ACCESS,READ,op,1,5,7,0,0x200,"{allocation_id:1,addr:0x200,size:2,type:PTA,shape:torch.Size([2, 3])}","a.py(3): f\nb","c\n"\n']
for i, row in enumerate(rows):
    open('%s/form%d' % (sys.argv[1], i), 'w').write(head + row + rows[0])
db = sqlite3.connect(sys.argv[1] + '/db')
db.execute('PRAGMA page_size=512')
db.execute('CREATE TABLE leaks_dump (%s)' % ','.join('"%s"' % c for c in head.strip().split(',')))
db.execute('INSERT INTO leaks_dump VALUES (1,"MALLOC","PTA","N/A",1,2,3,"0","512",?,"","")', ('{"allocation_id":"1","size":"5"}',))
db.commit()
open(sys.argv[1] + '/json', 'w').write('{"allocation_id":"1","owner":"a\\u00e9\\"","size":5}')
EOF
	fi ;;
analyses) sources=("$src"/user/analyze/*.c "$out/default.c" "$src"/user/model/{row,texts}.c "$src"/user/base/*.c)
	libs=()
	sed -f "$src/user/analyze/quote.sed" "$src/user/analyze/owners.rules" >"$out/default.c"
	[ $# -gt 0 ] || head -c 4000 "$src/user/analyze/leaks.c" >"$out/corpus/any" ;;
rules) sources=("$src"/user/analyze/*.c "$out/default.c" "$src"/user/model/{row,texts}.c "$src"/user/base/*.c) libs=()
	sed -f "$src/user/analyze/quote.sed" "$src/user/analyze/owners.rules" >"$out/default.c"
	[ $# -gt 0 ] || cp "$src/user/analyze/owners.rules" "$out/corpus/" ;;
*) echo "no such target: $name" >&2; exit 2 ;;
esac
"$clang" -g -O1 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
	-I"$src/user" -I"$src/include" "$here/fuzz_$name.c" "${sources[@]}" "${libs[@]}" -o "$out/fuzz"
[ $# -eq 0 ] || cp "$@" "$out/corpus/"
cd "$out"
./fuzz -max_total_time="$seconds" -max_len=131072 -timeout=20 -print_final_stats=1 corpus || {
	echo "the input that failed is kept in ${MEMTAP_FUZZ_KEEP:=$(mktemp -d)}"
	cp crash-* leak-* timeout-* oom-* "$MEMTAP_FUZZ_KEEP"/ 2>/dev/null
	exit 1
}
