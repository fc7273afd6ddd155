#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# init of the test machine: traces the simulated job, sends the files out by the second serial port.
/bin/busybox mkdir -p /proc /sys /dev /tmp /usr/bin /usr/sbin /sbin
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t debugfs debug /sys/kernel/debug 2>/dev/null
ip link set lo up 2>/dev/null
echo "INIT-STARTED $(uname -m) $(uname -r)"
mkdir -p /tmp/out
memtap check >/tmp/out/check.txt 2>&1
memtap check --json >/tmp/out/check.json 2>/dev/null
echo CHECKED

# The job waits until all probes are attached and again before it exits, so that all it did is
# inside the window.
run() { # NAME SIM-OPTIONS
	name=$1
	shift
	echo "RUN $name"
	mkfifo /tmp/go
	/sim/sim-train --wait --truth /tmp/out/$name.truth --quiet "$@" </tmp/go >/tmp/out/$name.sim 2>&1 &
	sim=$!
	exec 3>/tmp/go
	until grep -q READY /tmp/out/$name.sim; do sleep 0.2; done
	memtap record -p $sim -o /tmp/out/$name --summary-json /tmp/out/$name.json >/tmp/out/$name.txt 2>&1 &
	tap=$!
	until grep -q 'probes attached\|error' /tmp/out/$name.txt; do sleep 0.2; done
	echo go >&3
	until grep -q DONE /tmp/out/$name.sim || ! kill -0 $sim; do sleep 0.2; done
	kill -INT $tap
	wait $tap
	echo $? >/tmp/out/$name.status
	echo end >&3
	exec 3>&-
	wait $sim
	echo $? >/tmp/out/$name.simstatus
	rm /tmp/go
	cat /tmp/out/$name.txt
}
run main --threads 2 --devices 2 --steps 12
run ranks --threads 1 --ranks 2 --steps 8 --layout b
MEMTAP_DISABLE=multi,session,cookie,sleepable run plain --threads 2 --steps 8 --late-dlopen 1
echo "TESTS-RUN"
# The second serial port: the first 16550 where the console is another kind (arm64).
port=/dev/ttyS1
[ "$(uname -m)" = aarch64 ] && port=/dev/ttyS0
cd /tmp/out && tar c . | gzip -9 | base64 >$port
sync
sleep 1
poweroff -f
