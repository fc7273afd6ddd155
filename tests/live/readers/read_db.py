#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads leaks_dump_*.db read-only; rows as read_csv gives them, in rowid order."""
import json
import os
import sqlite3
import sys

try:
    from .read_csv import COLUMNS, short_keys
except ImportError:
    from read_csv import COLUMNS, short_keys


def read_table(path, table):
    wal = path + "-wal"
    if os.path.exists(wal) and os.path.getsize(wal):
        raise ValueError(f"{path}: a write-ahead log is left")
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        names = [r[1] for r in db.execute(f'PRAGMA table_info("{table}")')]
        if not names:
            return None
        if names != COLUMNS:
            raise ValueError(f"{path}: columns {names}")
        rows = []
        for cells in db.execute(f'SELECT * FROM "{table}" ORDER BY rowid'):
            row = dict(zip(COLUMNS, cells))
            for column in ("ID", "Timestamp(ns)", "Process Id", "Thread Id"):
                if not isinstance(row[column], int):
                    raise ValueError(f"{path}: {column} {row[column]!r}")
            attr = json.loads(row["Attr"]) if row["Attr"] else {}
            if not isinstance(attr, dict) or not all(isinstance(v, str) for v in attr.values()):
                raise ValueError(f"{path}: Attr {row['Attr']!r}")
            row["Attr"] = attr
            row["Ptr"] = None if row["Ptr"] == "N/A" else int(row["Ptr"], 0)
            # Marks keep their quotes in a db; a csv reader takes them off.
            if row["Event"] == "MSTX":
                row["Name"] = row["Name"][1:-1]
            rows.append(short_keys(row))
        return rows
    finally:
        db.close()


def read_db(path):
    rows = read_table(path, "leaks_dump")
    if rows is None:
        raise ValueError(f"{path}: no table leaks_dump")
    return rows


def read_preattach(path):
    """Rows of the table preattach_free, [] when there is none."""
    return read_table(path, "preattach_free") or []


if __name__ == "__main__":
    for r in read_db(sys.argv[1]):
        print(r["id"], r["event"], r["type"], r["name"], r["time"], r["pid"], r["device"],
              r["ptr"], r["attr"])
