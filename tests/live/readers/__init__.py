# SPDX-License-Identifier: Apache-2.0
"""Independent readers and checkers of memtap's files, for the live tests.

    import readers
    rows = readers.read_csv(path)      # list of dicts
    rows = readers.read_db(path)       # the same keys
    events = readers.read_trace(path)  # checked Chrome trace events
    problems = readers.insight(path)   # [] when MindStudio Insight can open it
"""
from .read_csv import read_csv, dump_of, traces_of
from .read_db import read_db, read_preattach
from .read_trace import read_trace, check_trace
from .insight import insight

__all__ = ["read_csv", "read_db", "read_preattach", "read_trace", "check_trace", "insight",
           "dump_of", "traces_of"]
