# SPDX-License-Identifier: Apache-2.0
"""stacks_fork.py LIBRARY HAL CHILDREN NOTES: each child allocates once and ends at once; the last one runs a new Python.

Run with a fifth argument it is that new program.
"""
import ctypes
import os
import sys
import time

LIBRARY, HAL, CHILDREN, NOTES = sys.argv[1:5]
lib = ctypes.CDLL(LIBRARY)
notes = os.open(NOTES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
if lib.stackcall_open(notes, HAL.encode(), None):
    sys.exit('no simulated driver')


def allocate():
    lib.stackcall(4096)


def in_new_program():
    for _ in range(100):
        allocate()
        time.sleep(0.01)


if len(sys.argv) > 5:
    in_new_program()
    sys.exit()
print('up', flush=True)
sys.stdin.readline()
for i in range(int(CHILDREN)):
    if not os.fork():
        allocate()
        if i == int(CHILDREN) - 1:
            os.execv(sys.executable, [sys.executable, *sys.argv, 'new'])
        os._exit(0)
    os.wait()
print('done', flush=True)
sys.stdin.readline()
