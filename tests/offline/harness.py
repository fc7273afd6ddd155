# SPDX-License-Identifier: Apache-2.0
"""Unpacks the golden dumps, runs the commands on them, counts what failed."""
import csv
import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
DATA = os.path.join(HERE, 'data')
HEADER = ('ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,'
          'Call Stack(Python),Call Stack(C)')


class Golden:
    """A folder with every case of tests/offline/data, unpacked."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix='memtap-offline-')
        for base, _, names in os.walk(DATA):
            to = os.path.join(self.dir, os.path.relpath(base, DATA))
            os.makedirs(to, exist_ok=True)
            for name in names:
                src = os.path.join(base, name)
                if name.endswith('.gz'):
                    with gzip.open(src) as f, open(os.path.join(to, name[:-3]), 'wb') as g:
                        shutil.copyfileobj(f, g)
                else:
                    shutil.copy(src, to)

    def close(self):
        shutil.rmtree(self.dir)

    def __call__(self, *parts):
        return os.path.join(self.dir, *parts)

    def dump(self, case):
        """The one dump file of a case."""
        found = [os.path.join(b, n) for b, _, names in os.walk(self(case)) for n in names
                 if re.match(r'(leaks|memscope)_dump_\d+\.(csv|db)$', n)]
        assert len(found) == 1, found
        return found[0]


class Run:
    """memtap with these arguments."""

    def __init__(self, binary, *args, stdout=subprocess.PIPE, env=None):
        p = subprocess.run([binary, *args], stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=300,
                           env=dict(os.environ, LC_ALL='C', **(env or {})))
        self.status, self.out, self.err = p.returncode, p.stdout, p.stderr


def rows_of(path):
    """The rows of a dump csv, attributes as a dictionary under 'attrs'."""
    with open(path, newline='') as f:
        rows = [r for r in csv.DictReader(f) if r['ID'] != 'ID']
    for r in rows:
        r['attrs'] = dict(re.findall(r'(\w+):((?:[^,}]|,(?!\w+:))*)', r['Attr'].strip('{}')))
    return rows


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text)))


class Tests:
    """Functions named test_*, each with (golden, memtap); a line for each, then the counts."""

    def __init__(self, binary, names):
        self.binary, self.names = binary, names
        self.passed = self.failed = 0

    def run(self, modules):
        golden = Golden()
        try:
            for module in modules:
                for name in sorted(vars(module)):
                    if not name.startswith('test_') or (self.names and not any(n in name for n in self.names)):
                        continue
                    self.one(name, getattr(module, name), golden)
        finally:
            golden.close()
        print('%d passed, %d failed' % (self.passed, self.failed))
        return 1 if self.failed or not self.passed else 0

    def one(self, name, function, golden):
        def memtap(*args, **kw):
            return Run(self.binary, *args, **kw)

        memtap.binary = self.binary
        try:
            function(golden, memtap)
        except Exception as e:  # what a test did not foresee is its failure, too
            self.failed += 1
            print('FAIL %s: %s' % (name, ''.join(traceback.format_exception(e)[-2:])), file=sys.stderr)
        else:
            self.passed += 1
            print('ok   %s' % name)
