#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the parts of the bench and prints one Markdown table.

Machines are shared and noisy: every figure is the median of several repeats,
what is compared is measured in turn within one run, and CPU time is used
where it says the same as wall-clock time.
"""
import argparse
import glob
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import jobs

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"  # the distribution's, without frame pointers


class Table:
    def __init__(self):
        self.rows = []

    def add(self, what, figure, goal, how):
        self.rows.append((what, figure, goal, how))
        print(f"  {what}: {figure} {goal}", file=sys.stderr, flush=True)

    def print(self):
        print("| what | figure | ratio or goal | how measured |\n|---|---|---|---|")
        for r in self.rows:
            print("| " + " | ".join(r) + " |")


def verdict(ok, goal):
    return f"goal {goal}: {'met' if ok else '**missed**'}"


def tool(opts, name, *args):
    """Lines "key<TAB>number" of a bench program: {key: [numbers]}."""
    path = os.path.join(opts.build, "tests", "bench", name)
    out = subprocess.run([path, *map(str, args)], check=True, text=True,
                         stdout=subprocess.PIPE).stdout
    res = {}
    for line in out.splitlines():
        key, value = line.split("\t")
        res.setdefault(key, []).append(float(value))
    return res


def spread(values, fmt):
    return f"{statistics.median(values):{fmt}} ({min(values):{fmt}}–{max(values):{fmt}})"


# ---- parts ----

PROBE_ROWS = [  # case, what it is compared with
    ("emulated: empty, multi", "emulated: no probe"),
    ("emulated: empty, perf", "emulated: empty, multi"),
    ("stepped: empty, multi", "emulated: empty, multi"),
    ("emulated: empty session", "emulated: empty, multi"),
    ("emulated: empty entry and uretprobe", "emulated: empty session"),
    ("emulated: PTA, other process", "emulated: empty, multi"),
    ("emulated: HAL session, other process", "emulated: empty, multi"),
    ("emulated: PTA, recorded", "emulated: empty, multi"),
    ("emulated: PTA, recorded, perf", "emulated: empty, perf"),
    ("stepped: PTA, recorded", "stepped: empty, multi"),
    ("emulated: HAL session, recorded", "emulated: empty session"),
    ("emulated: HAL entry and uretprobe, recorded", "emulated: empty entry and uretprobe"),
    ("emulated: HAL entry and ret site, recorded", "emulated: HAL session, recorded"),
    ("emulated: PTA, recorded, with a stack of 20 frames", "emulated: PTA, recorded"),
    ("emulated: PTA, recorded, with a stack of 60 frames", "emulated: PTA, recorded"),
    ("emulated: HAL session, recorded, with a stack of 20 frames", "emulated: HAL session, recorded"),
    ("stepped: PTA, recorded, with a stack of 20 frames", "stepped: PTA, recorded"),
]


def part_probe(opts, table):
    res = tool(opts, "bench-probe", 3 if opts.quick else 7, 20000 if opts.quick else 50000)
    for case, base in PROBE_ROWS:
        if case not in res:
            table.add(f"probe, {case}", "–", "not on this kernel", "")
            continue
        ns, than = statistics.median(res[case]), statistics.median(res[base])
        ratio = "" if base.endswith("no probe") else f"{ns / than:.2f} × “{base}”"
        if case == "emulated: PTA, recorded, with a stack of 20 frames":
            ratio += "; " + verdict(ns / than <= 1.6, "≤ 1.6 ×")
        table.add(f"probe, {case}", f"{ns:.0f} ns a call", ratio,
                  "CPU time of the probed thread, one process probed from another")


def part_attach(opts, table):
    n = 3 if opts.quick else 7
    res = tool(opts, "bench-attach", n)
    how = f"median of {n}, (smallest–largest)"
    table.add("attach 100 probes of one file", spread(res["attach"], ".0f") + " ms",
              verdict(statistics.median(res["attach"]) <= 50, "≤ 50 ms"),
              "symbols, sites, maps, link; " + how)
    gone = [g for g in res["gone"] if g >= 0]
    if gone:
        table.add("detach one link of 100 probes: targets free of breakpoints",
                  spread(gone, ".1f") + " ms", verdict(statistics.median(gone) <= 20, "≤ 20 ms"),
                  "a process that has the file mapped watches its own code; " + how)
    table.add("… and the closing thread returns", spread(res["detach"], ".0f") + " ms",
              f"a link of 1 probe, one grace period of this kernel: {spread(res['floor'], '.0f')} ms",
              how)
    table.add("load the BPF programs", spread(res["load"], ".0f") + " ms", "", how)
    runs = {}
    with jobs.Sim(opts, ["--threads", "2", "--rate", "1000"]) as sim:
        for _ in range(n):
            for name, env in (("", {}), (" (perf uprobes)", {"MEMTAP_DISABLE": "multi"})):
                if env and (opts.quick or len(runs.get(name, [])) >= 2):
                    continue
                runs.setdefault(name, []).append(jobs.record(opts, sim.pid, seconds=0.5, env=env))
    for name, rs in runs.items():
        probes = rs[0].summary["probes"]
        goal50 = "" if name else verdict(statistics.median([r.summary["attach_ms"] for r in rs])
                                         <= 50, "≤ 50 ms")
        med = statistics.median([r.summary["detach_ms"] for r in rs])
        table.add(f"attach the default set, {probes} probes{name}",
                  spread([r.summary["attach_ms"] for r in rs], ".0f") + " ms", goal50,
                  "files found, scanned and probed; sim-train, " + how)
        table.add(f"detach the default set{name}",
                  spread([r.summary["detach_ms"] for r in rs], ".0f") + " ms",
                  verdict(med <= 100, "≤ 100 ms"), "links closed by threads; " + how)
        table.add(f"start to “all probes attached”{name}",
                  spread([r.ready * 1000 for r in rs], ".0f") + " ms", "",
                  "from exec, loading of the programs included; " + how)


def part_memory(opts, table):
    with jobs.Sim(opts, ["--threads", "2", "--rate", "1000"]) as sim:
        r = jobs.record(opts, sim.pid, seconds=2, look=jobs.memory_of)
    total, ring, anon, files = r.looked
    table.add("memory at rest", f"{total / 1024:.0f} MiB resident", "",
              f"of it {ring / 1024:.0f} MiB ring (mapped, the kernel's), {anon / 1024:.0f} MiB own, "
              f"{files / 1024:.0f} MiB files")


def part_loader(opts, table):
    events = 1000000 if opts.quick else 3000000
    cases = [("CSV, no trace events", "workspace", [], 1.5),
             ("CSV and trace, pool records", "pool", [], 1.5),
             ("CSV and trace, mixed records", "mix", [], 1.5),
             ("db, no trace events", "workspace", ["--data-format", "db"], None)]
    res = {}
    with jobs.Sim(opts, ["--threads", "1", "--rate", "10"]) as sim:
        for _ in range(1 if opts.quick else 3):
            for name, mode, more, _goal in cases:
                n = events // 4 if more else events
                got = {}

                def feed(pid):
                    got.update(tool(opts, "bench-feed", pid, sim.pid, mode, n))

                r = jobs.record(opts, sim.pid, seconds=None, more=more, look=feed, pin=True)
                if not r.summary["accounting"]["exact"] or r.summary["accounting"]["lost"]:
                    raise RuntimeError(f"{name}: not all of the records arrived")
                res.setdefault(name, []).append(got["events"][0] / got["cpu"][0] / 1e6)
    for name, mode, _more, goal in cases:
        med = statistics.median(res[name])
        table.add(f"loader to {name}", spread(res[name], ".2f") + " M events/s/core",
                  verdict(med >= goal, f"≥ {goal} M") if goal else "",
                  "synthetic records into the ring of memtap record on one core, by its CPU time")


def rate_pair(opts, args, n):
    """Operations a second untraced and traced, in turn."""
    plain, traced, runs = [], [], []
    seconds = 2 if opts.quick else 4
    for _ in range(n):
        with jobs.Sim(opts, args, seconds=seconds) as sim:
            plain.append(sim.rate())
        with jobs.Sim(opts, args, seconds=seconds + 1) as sim:
            r = jobs.record(opts, sim.pid, seconds=None, until=sim)
            traced.append(sim.rate())
            runs.append(r)
    return plain, traced, runs


def part_record(opts, table):
    n = 1 if opts.quick else 3
    for name, args in (("allocations only, 1 thread", ["--load", "--threads", "1"]),
                       ("training pattern, 1 thread", ["--threads", "1"])):
        plain, traced, runs = rate_pair(opts, args, n)
        a, b = statistics.median(plain), statistics.median(traced)
        events = sum(r.summary["accounting"]["seen"] for r in runs)
        cpu = sum(r.summary["cpu_seconds"] for r in runs)
        table.add(f"sim-train, {name}", f"{a / 1e6:.2f} → {b / 1e6:.2f} M operations/s",
                  f"÷ {a / b:.1f}; {1e9 / b - 1e9 / a:.0f} ns an operation",
                  f"untraced and traced in turn, medians of {n}; memtap: "
                  f"{cpu / events * 1e6:.2f} µs CPU an event")


def part_loss(opts, table):
    cores = os.cpu_count()
    seconds = 4 if opts.quick else 10
    for name, args in (("allocations", ["--load"]), ("training pattern", [])):
        with jobs.Sim(opts, [*args, "--threads", str(cores)]) as sim:
            r = jobs.record(opts, sim.pid, seconds=seconds)
        acc = r.summary["accounting"]
        took = (r.summary["stopped_boot_ns"] - r.summary["attached_boot_ns"]) / 1e9
        table.add(f"loss at full load, {name} on all {cores} cores",
                  f"{acc['lost']} of {acc['seen']} events",
                  verdict(acc["lost"] == 0, "0") + ("" if acc["exact"] else "; **not exact**"),
                  f"{took:.0f} s, {acc['seen'] / took / 1e6:.2f} M events/s, memtap "
                  f"{r.summary['cpu_seconds'] / took * 100:.0f} % of a core, "
                  f"{r.summary['memory_kib'] / 1024:.0f} MiB at most")


def host_run(opts, more, ranges, ms):
    """A program that counts its own calls in ranges: {key: [numbers]} and its recording."""
    lib = os.path.join(opts.build, "tests", "sim", "cann", "lib64", "libms_tools_ext.so")
    cmd = [os.path.join(opts.build, "tests", "bench", "bench-host"), lib, str(ranges), str(ms)]
    got = {}
    with subprocess.Popen(cmd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        target.stdout.readline()

        def look(_pid):
            for line in target.communicate("\n")[0].splitlines():
                key, value = line.split("\t")
                got.setdefault(key, []).append(float(value))

        run = jobs.record(opts, target.pid, seconds=None, look=look, more=more)
    return got, run


def part_host(opts, table):
    ranges = 5 if opts.quick else 15
    got, run = host_run(opts, (), ranges, 100)
    host = run.summary["host_memory"]
    # Each pair is two rows; what else the ranges hold are the marks.
    rows = (run.summary["accounting"]["rows"] - 2 * ranges) / 2
    own = sum(got["pairs"])
    plain, inside = statistics.median(got["plain"]), statistics.median(got["inside"])
    table.add("host memory: a pair of malloc and free in a range", f"{inside:.0f} ns", f"{plain:.0f} ns outside",
              f"medians of {ranges} ranges, on one thread")
    table.add("host memory: the first calls of a range that are missed",
              f"{host['missed_ns'] / ranges / 1e6:.1f} (at most {host['missed_most_ns'] / 1e6:.1f}) ms",
              f"{(own - rows) / ranges:.0f} pairs a range at {plain:.0f} ns each",
              f"the program's own count less the rows, mean of {ranges} ranges that allocate without a pause; of it one "
              "grace period of the kernel")
    got, run = host_run(opts, ("--exact-ranges",), ranges, 100)
    host = run.summary["host_memory"]
    rows = (run.summary["accounting"]["rows"] - 2 * ranges) / 2
    table.add("… with --exact-ranges", f"{sum(got['pairs']) - rows:.0f} pairs missed",
              verdict(sum(got["pairs"]) == rows and not run.summary["accounting"]["lost"], "0") +
              f"; stopped {host['stopped_ns'] / ranges / 1e6:.1f} (at most {host['stopped_most_ns'] / 1e6:.1f}) ms a range",
              f"the same, {ranges} ranges")


def part_real(opts, table):
    """Rows of bench_real.py, which needs the real wheels: "what<TAB>figure<TAB>goal<TAB>how"."""
    script = os.path.join(HERE, "bench_real.py")
    if not os.path.exists(script):
        table.add("training step of torch_npu", "–", "", "bench_real.py is not there")
        return
    done = subprocess.run([sys.executable, script, "--build", opts.build]
                          + (["--quick"] if opts.quick else []), text=True,
                          stdout=subprocess.PIPE, check=False)
    rows = [line.split("\t") for line in done.stdout.splitlines() if line.count("\t") == 3]
    for row in rows:
        table.add(*row)
    if done.returncode or not rows:
        table.add("training step of torch_npu", "–", "", f"skipped (exit {done.returncode})")


def part_ops(opts, table):
    """Operators of torch, where an environment of real wheels is in the cache (scripts/real-env.sh)."""
    cache = os.environ.get("MEMTAP_CACHE", os.path.expanduser("~/.cache/memtap"))
    runs = sorted(glob.glob(os.path.join(cache, "real", "2.7.1-2.7.1", "run")))
    if not runs:
        table.add("operators of torch", "–", "", "skipped: no environment; scripts/real-env.sh 2.7.1 2.7.1 makes it")
        return
    done = subprocess.run([sys.executable, os.path.join(HERE, "bench_ops.py"), "--run", runs[0], "--build", opts.build]
                          + (["--quick"] if opts.quick else []), text=True, stdout=subprocess.PIPE, check=False)
    for line in done.stdout.splitlines():
        table.add(*line.split("\t"))
    if done.returncode:
        table.add("operators of torch", "–", "", f"failed (exit {done.returncode})")


def part_names(opts, table):
    """Names of the largest libraries of the newest real environment, and of the C library."""
    cache = os.environ.get("MEMTAP_CACHE") or os.path.expanduser("~/.cache/memtap")
    files = []
    for lib in ("torch/lib/libtorch_cpu.so", "torch_npu/lib/libtorch_npu.so", "torch/lib/libtorch_python.so"):
        found = sorted(glob.glob(os.path.join(cache, "real", "[0-9]*", "site", lib)))
        files += found[-1:]
    if not files:
        table.add("names of libtorch_cpu", "–", "", "no real environment here (scripts/test-real.sh)")
    with open("/proc/self/maps", encoding="utf-8") as f:
        files += sorted({line.split()[-1] for line in f if "/libc.so" in line})
    got = {}
    for path in files:
        for _ in range(1 if opts.quick else 3):
            out = subprocess.run([os.path.join(opts.build, "tests", "bench", "bench-names"), path],
                                 check=True, text=True, stdout=subprocess.PIPE).stdout
            for line in out.splitlines():
                lib, what, value = line.split("\t")
                got.setdefault(lib, {}).setdefault(what, []).append(float(value))
    for lib, x in got.items():
        m = {k: statistics.median(v) for k, v in x.items()}
        table.add(f"names of {lib}: {m['symbols']:.0f} symbols", f"{spread(x['table ms'], '.0f')} ms",
                  f"{m['table bytes'] / 1e6:.1f} MB of memory",
                  f"table made, CPU time; the file has {m['bytes of names in the file'] / 1e6:.1f} MB of names")
        table.add("… an address asked before, of 20000", f"{spread(x['known ns'], '.0f')} ns",
                  verdict(m["known ns"] <= 1000, "≤ 1 µs"),
                  f"CPU time; a new one {m['new ns'] / 1e3:.0f} µs, {m['named percent']:.0f} % have a name")


OFFLINE = [  # command, its arguments behind the dump; OTHER: a dump that differs
    ("leaks", ["leaks"], []),
    ("gap", ["gap"], []),
    ("inefficient", ["inefficient", "--format=csv"], []),
    ("watch, blocks of 1 to 2 MiB", ["watch", "--size=1M-2M", "--max-blocks=1000000"], []),
    ("decompose", ["decompose"], []),
    ("compare, the same", ["compare", "--level=0,1"], ["DUMP"]),
    ("compare, 1 of 400 operators differs", ["compare"], ["OTHER"]),
    ("cut, to csv", ["cut", "-o", "OUT"], []),
    ("cut, to db", ["cut", "--data-format=db", "-o", "OUT"], []),
]


def measured(args):
    """CPU seconds, MiB at most and seconds of a command, its output thrown away."""
    start = time.monotonic()
    with subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as p:
        message = p.stderr.read()
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode:
        raise RuntimeError(f"{' '.join(args)}: {message.decode()}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, time.monotonic() - start


def part_offline(opts, table):
    """Each analysis on dumps of 100 k, 1 M and 10 M rows."""
    sizes = [100_000, 1_000_000] + ([] if opts.quick else [10_000_000])
    res = {}
    for rows in sizes:
        dumps = {}
        for name, seed in (("DUMP", "0"), ("OTHER", "1")):
            dumps[name] = os.path.join(opts.tmp, f"{name}.csv")
            with open(dumps[name], "wb") as f:
                subprocess.run([os.path.join(opts.build, "tests/bench/bench-dump"), str(rows), seed],
                               check=True, stdout=f)
        size = os.path.getsize(dumps["DUMP"])
        for name, command, more in OFFLINE:
            out = os.path.join(opts.tmp, "cut")
            args = [os.path.join(opts.build, "memtap"), *command, dumps["DUMP"], *(dumps[m] for m in more)]
            res.setdefault(name, []).append(measured([out if a == "OUT" else a for a in args]))
            shutil.rmtree(out, ignore_errors=True)
        for path in dumps.values():
            os.unlink(path)
    for name, runs in res.items():
        seconds, mib, wall = runs[-1]
        text = ", ".join(f"{s:.2f} s CPU {m:.0f} MiB" for s, m, _ in runs)
        table.add(f"on files, {name}, {'/'.join(f'{r / 1e6:g}' for r in sizes)} M rows", text,
                  verdict(seconds <= 20 and mib <= 1024, "≤ 20 s of CPU, ≤ 1 GiB for 10 M") if not opts.quick else "",
                  f"CPU time and resident memory at most; growth of the last tenfold: time × "
                  f"{seconds / runs[-2][0]:.1f}, memory × {mib / runs[-2][1]:.1f}; the largest file has "
                  f"{size / 1e6:.0f} MB and took {wall:.0f} s by the clock of a shared machine")


def part_writer(opts, table):
    path = os.path.join(opts.build, "tests", "bench", "bench-writer")
    out = subprocess.run([path, "500000" if opts.quick else "2000000"], check=True, text=True,
                         stdout=subprocess.PIPE).stdout
    for line in out.splitlines()[2:]:
        name, _rows, rate, mbs, ns = [c.strip() for c in line.strip("|").split("|")]
        table.add(f"writer, {name}", f"{rate} rows/s", f"{ns} ns a row",
                  f"rows into files, CPU time; {mbs} MB/s")


def largest_libraries(n):
    """The largest ELF files with code on this machine, each name once."""
    cache = os.environ.get("MEMTAP_CACHE") or os.path.expanduser("~/.cache/memtap")
    found = {}
    for top in (os.path.join(cache, "real"), os.path.join(cache, "wheels"), "/usr/lib", "/usr/local/lib", "/opt"):
        for where, _, files in os.walk(top):
            for name in files:
                path = os.path.join(where, name)
                if ".so" not in name or os.path.islink(path):
                    continue
                size = os.path.getsize(path)
                if size > 4 << 20 and size > found.get(name, (0, ""))[0]:
                    found[name] = (size, path)
    return [path for _, path in sorted(found.values(), reverse=True)[:n]]


def part_tables(opts, table):
    """Unwind tables of the ten largest libraries of this machine."""
    got = {}
    for path in largest_libraries(10):
        for _ in range(1 if opts.quick else 3):
            out = subprocess.run([os.path.join(opts.build, "tests", "bench", "bench-tables"), path],
                                 check=True, text=True, stdout=subprocess.PIPE).stdout
            for line in out.splitlines():
                lib, what, value = line.split("\t")
                got.setdefault(lib, {}).setdefault(what, []).append(float(value))
    total = {"rows": 0, "table MiB": 0, "build ms": 0}
    for lib, x in got.items():
        m = {k: statistics.median(v) for k, v in x.items()}
        for k in total:
            total[k] += m[k]
        table.add(f"unwind table of {lib}, {m['file MiB']:.0f} MiB", f"{spread(x['build ms'], '.0f')} ms",
                  f"{m['rows'] / 1e6:.2f} M rows, {m['rules']:.0f} rules, {m['table MiB']:.1f} MiB",
                  "made from .eh_frame, CPU time, by the thread that makes tables")
    table.add("… all of these", f"{total['build ms']:.0f} ms",
              f"{total['rows'] / 1e6:.2f} M rows, {total['table MiB']:.1f} MiB", "")


def part_stacks(opts, table):
    """Stacks of CPython in three ways, and what a frame costs at several depths."""
    got = {}
    script = os.path.join(HERE, "calls.py")
    for _ in range(1 if opts.quick else 3):
        out = subprocess.run([os.path.join(opts.build, "tests", "bench", "bench-methods"), PYTHON, script, "1000"],
                             check=True, text=True, stdout=subprocess.PIPE).stdout
        for line in out.splitlines():
            method, what, value = line.split("\t")
            got.setdefault(method, {}).setdefault(what, []).append(float(value))
    m = {k: {w: statistics.median(v) for w, v in x.items()} for k, x in got.items()}
    base = m["empty program"]["ns a call"]
    for name, key in (("walked in the kernel by rows", "rows"), ("copied, walked by libdw", "copy"),
                      ("by frame pointers (bpf_get_stack)", "frame pointers")):
        x = m[key]
        here, there = x["ns a call"] - base, x["reader ns a stack"]
        table.add(f"stacks of CPython, {name}", f"{x['whole percent']:.1f} % complete, {x['frames a stack']:.1f} frames",
                  f"{here / x['frames a stack']:.0f} ns a frame in the target"
                  + (f" and {there / x['frames a stack']:.0f} in memtap" if there else ""),
                  f"{os.path.basename(PYTHON)}, calls of getppid(2) from many places; above an empty program, sending included")
    res = tool_by_depth(opts, 3 if opts.quick else 7)
    for name, key in (("with bpf_loop", "rows"), ("without (before 5.17)", "rows, no loop")):
        a, b = statistics.median(res[("20", key)]), statistics.median(res[("100", key)])
        table.add(f"a frame of C, {name}", f"{(b - a) / 80:.0f} ns", verdict((b - a) / 80 <= 120, "≤ 120 ns"),
                  "CPU time of the probed thread at depths 20 and 100")


def tool_by_depth(opts, rounds):
    out = subprocess.run([os.path.join(opts.build, "tests", "bench", "bench-stack"), str(rounds), "20000"], check=True,
                         text=True, stdout=subprocess.PIPE).stdout
    res = {}
    for line in out.splitlines():
        depth, case, value = line.split("\t")
        res.setdefault((depth, case), []).append(float(value))
    return res


PARTS = {"probe": part_probe, "attach": part_attach, "memory": part_memory, "loader": part_loader,
         "record": part_record, "loss": part_loss, "host": part_host, "real": part_real, "ops": part_ops, "names": part_names,
         "stacks": part_stacks, "tables": part_tables,
         "offline": part_offline, "writer": part_writer}


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith(("model name", "CPU part")):
                return line.split(":", 1)[1].strip()
    return "unknown"


def main():
    ap = argparse.ArgumentParser(prog="run.sh", description=__doc__.splitlines()[0])
    ap.add_argument("--quick", action="store_true", help="fewer and shorter repeats")
    ap.add_argument("--build", required=True, help=argparse.SUPPRESS)
    ap.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    opts = ap.parse_args()
    for p in opts.parts:
        if p not in PARTS:
            ap.error(f"no part {p}; there are {', '.join(PARTS)}")
    if os.geteuid():
        ap.error("needs root: BPF")
    opts.build = os.path.abspath(opts.build)
    table = Table()
    with tempfile.TemporaryDirectory(prefix="memtap-bench-") as opts.tmp:
        for p in opts.parts or [p for p in PARTS if p != "writer"]:
            print(f"{p}:", file=sys.stderr)
            PARTS[p](opts, table)
    table.print()
    print(f"\nLinux {platform.release()} {platform.machine()}, {os.cpu_count()} cores, "
          f"{cpu_model()}{', quick run' if opts.quick else ''}.")


if __name__ == "__main__":
    main()
