#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the commands on dump files, against what the vendor's own tool wrote: run.py MEMTAP [NAME...]"""
import sys

import test_compare
import test_cut
import test_decompose
import test_forms
import test_inefficient
import test_leaks
import test_manual
import test_msleaks
import test_python
import test_watch
from harness import Tests

sys.exit(Tests(sys.argv[1], sys.argv[2:]).run([test_leaks, test_compare, test_inefficient, test_decompose, test_cut,
                                               test_forms, test_manual, test_msleaks, test_python,
                                               test_watch]))
