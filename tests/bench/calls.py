# SPDX-License-Identifier: Apache-2.0
"""calls.py CALLS: for each line on stdin so many calls of getppid(2) from many places; says their CPU time in ns."""
import functools
import json
import os
import re
import sys
import time

left = 0


class Odd:
    pass


def leaf(*_):
    global left
    left -= 1
    os.getppid()
    return 0


def recursion(n):
    return recursion(n - 1) if n else leaf()


def generator():
    yield leaf()


WAYS = [leaf, lambda: recursion(3), lambda: recursion(20), lambda: recursion(60),
        lambda: sorted([3, 1, 2], key=leaf), lambda: list(map(leaf, range(3))), lambda: list(generator()),
        lambda: functools.reduce(lambda a, b: leaf(), [1, 2, 3]), lambda: json.dumps(Odd(), default=leaf),
        lambda: re.sub('a', lambda m: str(leaf()), 'aaa')]
for line in sys.stdin:
    left = int(sys.argv[1])
    begin = time.thread_time_ns()
    while left > 0:
        for way in WAYS:
            way()
    print(time.thread_time_ns() - begin, flush=True)
