#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads leaks_dump_*.csv with Python's csv module: RFC 4180 and nothing of ours.

read_csv(path) gives a list of dicts in file order with the columns' names, where
ID, Timestamp(ns), Process Id, Thread Id are int, Ptr is int or None, and Attr is a
dict of texts ({} when the cell is empty). Short keys are there too: id, event, type,
name, time, pid, tid, device, ptr, attr, and size, allocation_id, total, used as int
or None when absent or N/A.
"""
import csv
import glob
import os
import re
import sys

COLUMNS = ["ID", "Event", "Event Type", "Name", "Timestamp(ns)", "Process Id", "Thread Id",
           "Device Id", "Ptr", "Attr", "Call Stack(Python)", "Call Stack(C)"]
NUMBERS = ("size", "allocation_id", "total", "used")
DEVICES = re.compile(r"\d+|N/A|host|cpu")


def parse_attr(cell):
    """{k:v,k:v} -> dict. A value may hold commas: a key starts at ',word:'."""
    if cell == "":
        return {}
    if not (cell.startswith("{") and cell.endswith("}")):
        raise ValueError(f"Attr {cell!r}")
    attr = {}
    for item in re.split(r",(?=[A-Za-z_]+:)", cell[1:-1]):
        key, colon, value = item.partition(":")
        if not colon or not key or key in attr:
            raise ValueError(f"Attr {cell!r}")
        attr[key] = value
    return attr


def number(text):
    return int(text) if text is not None and re.fullmatch(r"-?\d+", str(text)) else None


def short_keys(row):
    """Adds the short keys to a row whose columns have their types."""
    row.update(id=row["ID"], event=row["Event"], type=row["Event Type"], name=row["Name"],
               time=row["Timestamp(ns)"], pid=row["Process Id"], tid=row["Thread Id"],
               device=row["Device Id"], ptr=row["Ptr"], attr=row["Attr"],
               call_py=row["Call Stack(Python)"], call_c=row["Call Stack(C)"])
    for key in NUMBERS:
        row[key] = number(row["Attr"].get(key))
    return row


def read_csv(path):
    with open(path, newline="", encoding="utf-8", errors="strict") as f:
        lines = list(csv.reader(f, strict=True))
    if not lines or lines[0] != COLUMNS:
        raise ValueError(f"{path}: header {lines[:1]}")
    rows = []
    for n, cells in enumerate(lines[1:], 2):
        if len(cells) != len(COLUMNS):
            raise ValueError(f"{path}: row {n} has {len(cells)} cells: {cells}")
        row = dict(zip(COLUMNS, cells))
        for column in ("ID", "Timestamp(ns)"):
            row[column] = int(row[column])
        for column in ("Process Id", "Thread Id"):
            row[column] = None if row[column] == "N/A" else int(row[column])
        if not DEVICES.fullmatch(row["Device Id"]):
            raise ValueError(f"{path}: row {n}: device {row['Device Id']!r}")
        has_ptr = row["Event"] in ("MALLOC", "FREE", "ACCESS")
        if has_ptr != (row["Ptr"] != "N/A"):
            raise ValueError(f"{path}: row {n}: Ptr {row['Ptr']!r}")
        row["Ptr"] = int(row["Ptr"], 0) if has_ptr else None
        row["Attr"] = parse_attr(row["Attr"])
        if has_ptr and int(row["Attr"].get("addr", "-1"), 0) != row["Ptr"]:
            raise ValueError(f"{path}: row {n}: addr is not Ptr")
        rows.append(short_keys(row))
    return rows


def one_of(pattern):
    found = sorted(glob.glob(pattern))
    if len(found) > 1:
        raise ValueError(f"more than one: {found}")
    return found[0] if found else None


def dump_of(directory, ext="csv"):
    """Path of the only leaks_dump file below an output folder, or None."""
    return one_of(os.path.join(glob.escape(directory), "dump", f"leaks_dump_*.{ext}"))


def traces_of(directory):
    """{'npu0': path, 'cpu': path, ...} of an output folder."""
    traces = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(directory), "trace", "*.json"))):
        m = re.fullmatch(r"(npu\d+|cpu)_trace_\d{14}\.json", os.path.basename(path))
        if not m or m.group(1) in traces:
            raise ValueError(f"unexpected trace file {path}")
        traces[m.group(1)] = path
    return traces


if __name__ == "__main__":
    for r in read_csv(sys.argv[1]):
        print(r["id"], r["event"], r["type"], r["name"], r["time"], r["pid"], r["device"],
              r["ptr"], r["attr"])
