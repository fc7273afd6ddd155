#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
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

run() { # NAME SIM-OPTIONS
	name=$1
	shift
	/sim/sim-train --seconds 12 --truth /tmp/out/$name.truth --quiet "$@" >/tmp/out/$name.sim 2>&1 &
	sim=$!
	sleep 1
	memtap record -p $sim -d 4 -o /tmp/out/$name --summary-json /tmp/out/$name.json >/tmp/out/$name.txt 2>&1
	echo $? >/tmp/out/$name.status
	wait $sim
	echo $? >/tmp/out/$name.simstatus
	cat /tmp/out/$name.txt
}
run main --threads 2 --devices 2 --rate 400
run ranks --threads 1 --ranks 2 --rate 200 --layout b
MEMTAP_DISABLE=multi,session,cookie,sleepable run plain --threads 2 --rate 300
echo "TESTS-RUN"
cd /tmp/out && tar c . | gzip -9 | base64 >/dev/ttyS1
sync
sleep 1
poweroff -f
