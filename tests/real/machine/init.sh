#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# init of the emulated machine: mounts the image of the real framework, starts the agent in it.
/bin/busybox mkdir -p /proc /sys /dev /root
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
# In the order in which they need each other; a kernel may have some built in.
for name in virtio virtio_ring virtio_mmio virtio_blk; do
	[ ! -e /modules/$name.ko ] || insmod /modules/$name.ko
done
disk() { # SERIAL
	for d in /sys/block/vd*; do
		[ "$(cat "$d/serial")" = "$1" ] && echo "/dev/${d##*/}"
	done
}
mount -t ext4 -o ro "$(disk root)" /root || echo "INIT no root"
for d in proc sys dev; do mount -o bind /$d /root/$d; done
mkdir -p /root/dev/shm
for d in tmp run dev/shm; do mount -t tmpfs tmpfs /root/$d; done
mount -t tracefs tracefs /root/sys/kernel/tracing
mount -t debugfs debug /root/sys/kernel/debug 2>/dev/null
ip link set lo up
ln -s "$(disk exchange)" /dev/exchange
cp /agent.py /root/tmp/
echo 1 >/sys/kernel/rcu_expedited
echo "INIT-STARTED $(uname -m) $(uname -r)"
# HOME is where nothing may be written: the image is mounted read-only.
env -i PATH=/usr/bin:/bin HOME=/tmp PYTHONHASHSEED=0 chroot /root /opt/real/sim/run /tmp/agent.py
echo "INIT the agent ended with $?"
poweroff -f
