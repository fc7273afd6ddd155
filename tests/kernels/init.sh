#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# init of the test machine: asks memtap about it, traces simulated jobs, sends the files out by a serial port.
/bin/busybox mkdir -p /proc /sys /dev /tmp /usr/bin /usr/sbin /sbin
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t debugfs debug /sys/kernel/debug 2>/dev/null
mount -t securityfs security /sys/kernel/security 2>/dev/null
ip link set lo up 2>/dev/null
out=/tmp/out
mkdir -p $out
chmod 1777 /tmp
echo "INIT-STARTED $(uname -m) $(uname -r)"

# Both formats of check, with its exit status: NAME COMMAND...
check() {
	name=$1
	shift
	"$@" memtap check >$out/$name.txt 2>$out/$name.err
	echo $? >$out/$name.status
	"$@" memtap check --json >$out/$name.json 2>>$out/$name.err
}
as_nobody() {
	shift # start-stop-daemon wants the name of the program apart from its arguments
	start-stop-daemon -S -c 65534:65534 -x /bin/memtap -- "$@"
}
check check
check off env MEMTAP_DISABLE=session,multi,cookie,sleepable,loop
check nobody as_nobody
{
	echo "release=$(uname -r)"
	echo "machine=$(uname -m)"
	echo "processors=$(nproc)"
	echo "paranoid=$(cat /proc/sys/kernel/perf_event_paranoid)"
	echo "unprivileged=$(cat /proc/sys/kernel/unprivileged_bpf_disabled)"
	echo "lockdown=$(cat /sys/kernel/security/lockdown)"
} >$out/facts
echo CHECKED

wait_for() { # TEXT FILE PID
	until grep -q "$1" "$2" 2>/dev/null || ! kill -0 "$3" 2>/dev/null; do sleep 0.1; done
}

# What would be probed in a process, and whether the kernel does with each site as is said.
probes() { # NAME PID [OPTION]
	memtap probes -p $2 >$out/$1.probes.txt 2>$out/$1.probes.err
	memtap probes -p $2 --json $3 >$out/$1.probes.json 2>>$out/$1.probes.err
	awk '/ wanted functions found$/ { sub(/: [0-9]+ of .*/, ""); file = $0 }
		$1 == "found" { print file, $2 }' $out/$1.probes.txt | emulated >$out/$1.emulated
	memtap check --json >$out/$1.check.json 2>/dev/null
}

# The job waits until all probes are attached and again before it exits, so that all it did is
# inside the window.
run() { # NAME [VARIABLE=VALUE]... -- SIM-OPTIONS
	name=$1 vars=
	shift
	while [ "$1" != -- ]; do
		vars="$vars $1"
		shift
	done
	shift
	echo "RUN $name at $(cut -d" " -f1 /proc/uptime)"
	mkfifo /tmp/go
	: >$out/$name.txt
	job=/sim/sim-train
	[ $name = python ] && job='python3 /sim/sim_train.py --root /sim'
	env $vars $job --wait --truth $out/$name.truth --quiet "$@" </tmp/go >$out/$name.sim 2>&1 &
	sim=$!
	exec 3>/tmp/go
	wait_for READY $out/$name.sim $sim
	[ $name = middle ] && echo go >&3 && sleep 1
	env $vars memtap record $options -p $sim -o $out/$name --summary-json $out/$name.json >$out/$name.txt 2>&1 &
	tap=$!
	wait_for 'probes attached' $out/$name.txt $tap
	if [ $name = middle ]; then
		sleep 1
		kill -INT $tap
		wait $tap
		echo $? >$out/$name.status
		kill -TERM $sim
		wait_for DONE $out/$name.sim $sim
	else
		echo go >&3
		wait_for DONE $out/$name.sim $sim
		kill -INT $tap
		wait $tap
		echo $? >$out/$name.status
	fi
	[ $name = main ] && probes main $sim
	[ $name = python ] && probes python $sim
	[ $name = ranks ] && probes ranks $sim --try
	echo end >&3
	exec 3>&-
	wait $sim
	echo $? >$out/$name.simstatus
	rm /tmp/go
	cat $out/$name.txt
}
run main -- --threads 2 --devices 2 --steps 12
# Detaching is waiting for grace periods: in full in one run, the others have them short.
echo 1 >/sys/kernel/rcu_expedited
run ranks -- --threads 1 --ranks 2 --steps 8 --layout b
run acl SIM_FAIL_HUGE=3 SIM_NESTED=3 -- --no-torch --threads 2 --devices 2 --steps 8
run none -- --layout none --steps 8 --empty-cache 3 --exceptions
run mindspore -- --mindspore --no-torch --steps 8
# Its modules are imported before the attach: emulated, the job is over before a table that is filled
# later has been found (tests/live/test_later.py).
options=--call-stack=python
run python PYTHONPATH=/sim/python -- --load --threads 2 --devices 2 --steps 8
options=--call-stack=c
run stacked -- --threads 2 --steps 8
options=
# It is ended from outside; a slow machine needs a minute for the attach.
run middle -- --layout a --threads 2 --devices 2 --rate 400 --seconds 600
# Without what newer kernels have; where there is nothing of it, as the kernel is.
off=MEMTAP_DISABLE=session,multi,cookie,sleepable
grep -q '"attach cookies":.*"yes"' $out/check.json || off=MEMTAP_DISABLE=
run plain $off -- --threads 2 --steps 8 --late-dlopen 1

# What has programs of its own, which all kernels need not load: operators of torch and ATB. Emulated,
# those of operators take half a minute to verify: by the oldest verifier, and by one that adds up stacks.
said() { # NAME OPTIONS PROGRAM [ARGUMENT]...
	name=$1 options=$2
	shift 2
	echo "RUN $name at $(cut -d" " -f1 /proc/uptime)"
	mkfifo /tmp/go
	"$@" </tmp/go >$out/$name.said 2>$out/$name.sim &
	job=$!
	exec 3>/tmp/go
	until grep -q READY $out/$name.sim $out/$name.said || ! kill -0 $job; do sleep 0.1; done
	memtap record $options -p $job -o $out/$name --summary-json $out/$name.json >$out/$name.txt 2>&1 &
	tap=$!
	wait_for 'probes attached' $out/$name.txt $tap
	echo >&3
	until grep -q DONE $out/$name.sim $out/$name.said || ! kill -0 $job; do sleep 0.1; done
	kill -INT $tap
	wait $tap
	echo $? >$out/$name.status
	echo >&3
	exec 3>&-
	wait $job
	rm /tmp/go
	cat $out/$name.txt
}
case $(uname -m)-$(uname -r) in
x86_64-5.10.* | aarch64-6.1.*) said ops '--ops=. --level=0 --events=launch,access' /sim/sim-ops 3 ;;
esac
case $(uname -m)-$(uname -r) in
aarch64-6.1.*)
	said atb '--ops=. --level=0,1 --events=alloc,launch,access' /sim/atb/82/cxx_abi_1/lib/sim-atb-82-1 3 1
	;;
esac

# Stacks of C functions, walked without what 5.10 has not.
echo "RUN stacks at $(cut -d" " -f1 /proc/uptime)"
stacks >$out/stacks.txt 2>&1

# Python stacks in BPF, beside those that the program itself sees.
echo "RUN pystack at $(cut -d" " -f1 /proc/uptime)"
mkfifo /tmp/go
PYTHONIOENCODING=utf-8 python3 /bin/pystacks.py /tmp probe here nested comprehension generator class_body \
	decorator many_lines control recursion too_deep callbacks executed not_ascii long_code traced in_threads \
	</tmp/go >$out/pystack.truth 2>$out/pystack.err &
job=$!
exec 3>/tmp/go
wait_for ^up $out/pystack.truth $job
pywalk $job called "$(awk '/libc\.so\.6$/ { print $6; exit }' /proc/$job/maps)" getppid 100000 \
	>$out/pystack.seen 2>>$out/pystack.err &
walk=$!
wait_for ^attached $out/pystack.seen $walk
echo >&3
wait_for ^done $out/pystack.truth $job
until [ "$(grep -c '^\[' $out/pystack.truth)" = "$(grep -c '^end' $out/pystack.seen)" ] || ! sleep 0.2; do
	tries=$((tries + 1))
	[ $tries -lt 300 ] || break
done
echo >&3
exec 3>&-
wait $job
kill $walk 2>/dev/null
rm /tmp/go

# Stacks of C in BPF, then at each instruction of a stretch, beside those that the program itself sees.
echo "RUN cwalk at $(cut -d" " -f1 /proc/uptime)"
for mode in plain sleepable steps; do
	cwalk $mode >$out/cwalk.$mode 2>&1
	echo "status $?" >>$out/cwalk.$mode
done

for lib in /sim/torch_npu_*/lib/libtorch_npu.so; do
	memtap probes $lib --derive --json
done >$out/derived 2>&1
echo "TESTS-RUN"
# The second serial port: the first 16550 where the console is another kind (arm64).
port=/dev/ttyS1
[ "$(uname -m)" = aarch64 ] && port=/dev/ttyS0
cd $out && tar c . | gzip -9 | base64 >$port
sync
sleep 1
poweroff -f
