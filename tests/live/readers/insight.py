#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Would MindStudio Insight open this db with every view right? (spec/insight.md, 7)

    problems = insight(path, owners=False, late_attach=False, python_trace=False)

gives a list of texts, empty when all is well. late_attach leaves out the rule that a
HAL block precedes the first pool block of a device. As a command: exit 1 on problems.
"""
import argparse
import json
import os
import re
import sqlite3
import sys

try:
    from .read_csv import COLUMNS
except ImportError:
    from read_csv import COLUMNS

NO_DEVICE = ("N/A", "", "host")
TYPES = {"HAL", "PTA", "PTA_WORKSPACE", "ATB", "MINDSPORE", "HOST_PINNED"}
OWN_TABLES = {"status_info", "memory_block", "memory_allocation"}


class Checker:
    def __init__(self, path, owners, late_attach):
        self.path, self.owners, self.late_attach = path, owners, late_attach
        self.bad = []

    def need(self, ok, what):
        if not ok:
            self.bad.append(what)
        return ok

    def file(self):
        self.need(re.fullmatch(r"leaks_dump_\d+\.db", os.path.basename(self.path)), "file name")
        self.need(not os.path.islink(self.path), "a symbolic link")
        self.need(os.stat(self.path).st_mode & 0o002 == 0, "writable by everybody")
        wal = self.path + "-wal"
        self.need(not os.path.exists(wal) or not os.path.getsize(wal), "a write-ahead log beside it")

    def schema(self, db):
        one = lambda sql: db.execute(sql).fetchone()[0]
        self.need(one("PRAGMA integrity_check") == "ok", "integrity")
        self.need(one("PRAGMA user_version") == 0, "user_version")
        tables = {r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type='table'")}
        self.need(not tables & OWN_TABLES, "tables of Insight itself")
        dumps = tables & {"memscope_dump", "leaks_dump"}
        if not self.need(len(dumps) == 1, f"dump tables {dumps}"):
            return None, tables
        table = dumps.pop()
        columns = [r[1] for r in db.execute(f"PRAGMA table_info({table})")]
        self.need(columns[:12] == COLUMNS, f"columns {columns}")
        return table, tables

    def attrs(self, row):
        """Attr of a row as a dict; an empty one when it is no JSON object."""
        if not row["Attr"]:
            return {}
        try:
            attr = json.loads(row["Attr"])
        except ValueError:
            attr = None
        self.need(isinstance(attr, dict), f"row {row['ID']}: Attr {row['Attr'][:60]!r}")
        return attr if isinstance(attr, dict) else {}

    def times(self, rows):
        times = [r["Timestamp(ns)"] for r in rows]
        if self.need(all(isinstance(t, int) for t in times), "a time is not a number") and times:
            self.need(0 < min(times) < max(times) < 2**63 - 1, f"times {min(times)}, {max(times)}")

    def block_row(self, row, attr, ids, live):
        where = f"row {row['ID']} at {row['Timestamp(ns)']}"
        key = row["Device Id"], row["Event Type"], row["Ptr"]
        size, alloc = attr.get("size"), attr.get("allocation_id")
        self.need(isinstance(size, str) and re.fullmatch(r"-?\d+", size) and int(size),
                  f"{where}: size {size!r}")
        if self.need(isinstance(alloc, str), f"{where}: allocation_id {alloc!r}") and alloc != "0":
            seen = ids.setdefault(alloc, (key, set()))
            self.need(seen[0] == key, f"allocation_id {alloc} names two blocks")
            self.need(row["Event"] not in seen[1], f"allocation_id {alloc}: two {row['Event']}")
            seen[1].add(row["Event"])
        self.need(row["Event Type"] in TYPES, f"{where}: type {row['Event Type']}")
        if row["Event"] == "MALLOC":
            self.need(key not in live, f"{where}: MALLOC of a live block {key}")
            live[key] = size
            self.need(not self.owners or attr.get("owner"), f"{where}: no owner")
        elif self.need(key in live, f"{where}: FREE of no block {key}"):
            self.need(abs(int(live.pop(key) or 0)) == abs(int(size or 0)), f"{where}: FREE of another size")

    def blocks(self, rows):
        shown = [r for r in rows if r["Device Id"] not in NO_DEVICE]
        self.need(shown, "no row of a device")
        shown.sort(key=lambda r: (r["Timestamp(ns)"], r["ID"]))
        ids, live, last, hal, pointer = {}, {}, {}, set(), {}
        count = 0
        for row in shown:
            if row["Event"] not in ("MALLOC", "FREE", "ACCESS"):
                continue
            attr = self.attrs(row)
            if row["Event"] == "ACCESS":
                known = pointer.get(attr.get("allocation_id"))
                self.need(known is None or known == row["Ptr"], f"ACCESS {row['ID']} at an inner address")
                continue
            count += 1
            key = row["Device Id"], row["Event Type"], row["Ptr"]
            self.need(row["Timestamp(ns)"] > last.get(key, 0),
                      f"row {row['ID']}: time of {key} does not rise")
            last[key] = row["Timestamp(ns)"]
            self.block_row(row, attr, ids, live)
            if row["Event"] == "MALLOC":
                pointer[attr.get("allocation_id")] = row["Ptr"]
                if row["Event Type"] == "HAL":
                    hal.add(row["Device Id"])
                elif row["Event Type"] != "HOST_PINNED" and not self.late_attach:
                    self.need(row["Device Id"] in hal,
                              f"row {row['ID']}: pool block before any HAL block of device {row['Device Id']}")
        self.need(count, "no block of a device")

    def python_trace(self, db, table):
        pid = re.fullmatch(r"python_trace_([1-9]\d*)", table)
        if not self.need(pid, f"table {table}"):
            return
        rows = db.execute(f'SELECT "StartTime(ns)", "EndTime(ns)", "Thread Id", "Process Id" FROM "{table}"').fetchall()
        closed = [r for r in rows if "N/A" not in r[:2]]
        self.need(closed, f"{table}: no closed row")
        self.need(all(r[3] == int(pid.group(1)) and r[2] > 0 for r in rows), f"{table}: ids")
        self.need(all(int(r[0]) < int(r[1]) for r in closed), f"{table}: times")
        self.need(len({len(r[0]) for r in rows if r[0] != "N/A"}) <= 1, f"{table}: lengths of times")


def insight(path, owners=False, late_attach=False, python_trace=False):
    c = Checker(path, owners, late_attach)
    c.file()
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        table, tables = c.schema(db)
        if table:
            columns = ", ".join(f'"{x}"' for x in COLUMNS)
            rows = [dict(zip(COLUMNS, r)) for r in db.execute(f"SELECT {columns} FROM {table}")]
            for row in rows:
                if row["Event"] not in ("MALLOC", "FREE", "ACCESS"):
                    c.attrs(row)
            c.times(rows)
            c.blocks(rows)
        traces = [t for t in tables if t.startswith("python_trace_")]
        for t in traces:
            c.python_trace(db, t)
        c.need(traces or not python_trace, "no python_trace table")
    finally:
        db.close()
    return c.bad


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("file")
    ap.add_argument("--owners", action="store_true")
    ap.add_argument("--late-attach", action="store_true")
    ap.add_argument("--python-trace", action="store_true")
    a = ap.parse_args()
    problems = insight(a.file, a.owners, a.late_attach, a.python_trace)
    for p in problems[:20]:
        print(p)
    if len(problems) > 20:
        print(f"and {len(problems) - 20} more")
    sys.exit(bool(problems))
