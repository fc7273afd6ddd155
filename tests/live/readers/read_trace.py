#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a trace JSON and checks it against the rules of Chrome's trace event format."""
import json
import sys

PHASES = {"i", "C", "X", "M"}


def is_number(v):
    return isinstance(v, (int, float)) and not isinstance(v, bool)


def check_event(e):
    """What is wrong with one event, or None."""
    ph = e.get("ph")
    if ph not in PHASES:
        return f"ph {ph!r}"
    if not isinstance(e.get("name"), str) or not e["name"]:
        return "no name"
    if not isinstance(e.get("pid"), int) or not isinstance(e.get("tid"), int):
        return "pid or tid"
    if ph == "M":
        known = {"process_name": "name", "process_sort_index": "sort_index",
                 "trace_start": "realtime_ns"}
        if list(e.get("args", {})) != [known.get(e["name"])]:
            return f"metadata {e.get('args')}"
        return None
    if not is_number(e.get("ts")):
        return f"ts {e.get('ts')!r}"
    if ph == "X" and (not is_number(e.get("dur")) or e["dur"] < 0):
        return f"dur {e.get('dur')!r}"
    if ph == "i" and e.get("s") != "p":
        return f"scope {e.get('s')!r}"
    if ph == "C":
        args = e.get("args")
        if not isinstance(args, dict) or not args or not all(map(is_number, args.values())):
            return f"counter {args!r}"
    return None


def overlaps(events):
    """Slices that neither follow nor nest on their thread: Perfetto drops these. Not of the vendor's axis of kernels,
    whose bars of blocks lie all on one thread."""
    threads = {}
    real = any(e.get("name") == "trace_start" for e in events)
    for e in events:
        if e.get("ph") == "X" and (real or e["pid"] != 1):
            threads.setdefault((e["pid"], e["tid"]), []).append((e["ts"], -e["dur"], e["name"]))
    bad = []
    for key, slices in threads.items():
        ends = []
        for ts, dur, name in sorted(slices):
            end = ts - dur
            while ends and ends[-1] <= ts:
                ends.pop()
            if ends and end > ends[-1]:
                bad.append(f"thread {key}: {name!r} overlaps")
            ends.append(end)
    return bad


def check_trace(events, ordered=True):
    """List of what breaks the format; ordered=False allows rows that came late."""
    bad = []
    if not isinstance(events, list):
        return ["not an array"]
    last = {}
    for n, e in enumerate(events):
        if e == {} and n == len(events) - 1:
            continue  # takes the last comma
        what = check_event(e)
        if what:
            bad.append(f"event {n}: {what}")
            continue
        if e["ph"] == "C":
            key = e["pid"], e["name"]
            if ordered and e["ts"] < last.get(key, float("-inf")):
                bad.append(f"event {n}: counter {key} goes back in time")
            last[key] = e["ts"]
    bad += overlaps(events)
    index = [e["args"]["sort_index"] for e in events if e.get("name") == "process_sort_index"]
    if index != list(range(len(index))):
        bad.append(f"sort indexes {index}")
    return bad


def read_trace(path, check=True, ordered=True):
    """The events without the closing empty object; ValueError when it breaks a rule."""
    with open(path, encoding="utf-8", errors="strict") as f:
        events = json.load(f)
    bad = check_trace(events, ordered) if check else []
    if bad:
        raise ValueError(f"{path}: {bad[:5]}")
    return [e for e in events if e]


if __name__ == "__main__":
    for event in read_trace(sys.argv[1]):
        print(json.dumps(event))
