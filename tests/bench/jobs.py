# SPDX-License-Identifier: Apache-2.0
"""The two programs of a measurement: sim-train as the load, memtap record on it."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time


class Sim:
    """sim-train in the background: for `seconds` from finish() on, or until the end."""

    def __init__(self, opts, args, seconds=None):
        self.args = [os.path.join(opts.build, "tests", "sim", "sim-train"), *args,
                     "--seconds", str(seconds or 600), *(["--wait"] if seconds else [])]
        self.limited = seconds is not None
        self.out = None

    def __enter__(self):
        self.proc = subprocess.Popen(self.args, stdin=subprocess.PIPE, text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.pid = self.proc.pid
        while not self.proc.stdout.readline().startswith("READY"):
            if self.proc.poll() is not None:
                raise RuntimeError("sim-train did not start")
        return self

    def finish(self):
        if self.out is None:
            self.out = self.proc.communicate("go\nend\n")[0]
        return self.out

    def rate(self):
        """Operations a second, as it counts them itself."""
        return float(re.search(r"\((\d+)/s\)", self.finish()).group(1))

    def __exit__(self, *exc):
        if not self.limited:
            self.proc.kill()
            self.proc.wait()
            self.proc.stdin.close()
            self.proc.stdout.close()
        else:
            self.finish()


class Run:
    """What one memtap record left: summary (JSON), ready (seconds to attached), looked."""


def record(opts, pid, seconds, env=None, more=(), look=None, pin=False, until=None):
    """One capture. Ends after `seconds`, with the load `until`, or when `look(pid)` is done."""
    run = Run()
    out = tempfile.mkdtemp(dir=opts.tmp)
    summary = os.path.join(out, "summary.json")
    cmd = [os.path.join(opts.build, "memtap"), "record", "-p", str(pid), "-o",
           os.path.join(out, "o"), "--summary-json", summary, *more]
    if seconds is not None and look is None:
        cmd += ["-d", str(seconds)]
    if pin:
        cmd = ["taskset", "-c", str(os.cpu_count() - 1), *cmd]
    begin = time.monotonic()
    with subprocess.Popen(cmd, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                          env={**os.environ, **(env or {})}) as proc:
        said = []
        for line in proc.stderr:
            said.append(line)
            if "all probes attached" in line:
                run.ready = time.monotonic() - begin
                break
        else:
            proc.wait()
            raise RuntimeError("memtap record failed: " + "".join(said))
        if look:
            if seconds:
                time.sleep(seconds)
            run.looked = look(proc.pid)
            proc.send_signal(signal.SIGINT)
        elif until:
            until.finish()
        proc.stderr.read()
        if proc.wait():
            raise RuntimeError(f"memtap record: exit {proc.returncode}")
    with open(summary, encoding="utf-8") as f:
        run.summary = json.load(f)
    shutil.rmtree(out)
    return run


def memory_of(pid):
    """Resident KiB: all, of rings, of own memory, of files."""
    ring = anon = files = 0
    kind = None
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as f:
        for line in f:
            head = re.match(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \d+ *(.*)", line)
            if head:
                kind = head.group(1)
            elif line.startswith("Rss:"):
                kib = int(line.split()[1])
                if "bpf-map" in kind or "bpf_map" in kind:
                    ring += kib
                elif kind.startswith("/"):
                    files += kib
                else:
                    anon += kib
    return ring + anon + files, ring, anon, files
