# SPDX-License-Identifier: Apache-2.0
"""The same dump in each form gives the same results."""
import csv
import os
import random
import shutil
import sqlite3
import tempfile

from harness import HEADER, rows_of

COMMANDS = (('leaks',), ('leaks', '--hal'), ('gap',), ('inefficient', '--format=csv'), ('watch', '--size=1-1G'),
            ('decompose',), ('decompose', '--refine', '--format=csv'))


def results(memtap, path):
    out = []
    for c in COMMANDS:
        run = memtap(*c, path)
        assert run.status == 0, (c, run.err)
        out.append(run.out)
    return out


def write_db(path, rows, name):
    """As the vendor's tool, then as MindStudio Insight leaves it."""
    db = sqlite3.connect(path)
    columns = HEADER.split(',')
    db.execute('CREATE TABLE %s (%s)' % (name, ','.join('"%s" %s' % (c, 'INTEGER' if c in (
        'ID', 'Timestamp(ns)', 'Process Id', 'Thread Id') else 'TEXT') for c in columns)))
    for r in rows:
        attr = '{%s}' % ','.join('"%s":"%s"' % kv for kv in r['attrs'].items())
        db.execute('INSERT INTO %s VALUES (%s)' % (name, ','.join('?' * 12)),
                   [attr if c == 'Attr' else '"%s"' % r[c] if c == 'Name' and r['Event'] == 'MSTX' else r[c]
                    for c in columns])
    db.execute('ALTER TABLE %s ADD COLUMN Depth INTEGER' % name)
    db.execute('CREATE TABLE memory_block (id INTEGER)')
    db.execute('PRAGMA user_version = 2')
    db.commit()
    db.close()


def test_forms_of_one_dump(golden, memtap):
    folder = tempfile.mkdtemp()
    try:
        for case in ('access', 'now_access'):
            want = results(memtap, golden(case))
            rows = rows_of(golden.dump(case))
            # A db, changed; a csv with other quotes and line ends; rows in another order.
            path = os.path.join(folder, 'x.db')
            write_db(path, rows, 'leaks_dump' if case == 'access' else 'memscope_dump')
            assert results(memtap, path) == want, case + ': db'
            os.unlink(path)
            path = os.path.join(folder, 'x.csv')
            with open(path, 'w', newline='') as f:
                w = csv.DictWriter(f, HEADER.split(','), quoting=csv.QUOTE_ALL, extrasaction='ignore')
                w.writeheader()
                w.writerows(rows)
            assert results(memtap, path) == want, case + ': all quoted, CRLF'
            with open(golden.dump(case)) as f:
                lines = f.read().split('\n')[1:-1]
            random.Random(1).shuffle(lines)
            with open(path, 'w') as f:
                f.write('\ufeff' + HEADER + '\n' + '\n'.join(lines))
            assert results(memtap, path) == want, case + ': another order'
            with open(path, 'w') as f:
                f.write(HEADER + '\n' + '\n'.join(x.replace('"{', '{').replace('}"', '}') for x in lines) + '\n')
            assert results(memtap, path) == want, case + ': Attr without quotes'
            # Sorted in little memory, in files.
            assert results(lambda *a: memtap(*a, env={'TMPDIR': folder}), golden(case)) == want
    finally:
        shutil.rmtree(folder)


def test_forms_of_the_vendors_db(golden, memtap):
    with open(golden('db/console.txt')) as f:
        assert memtap('leaks', golden('db')).out == f.read()


def test_forms_that_cannot_be_printed(golden, memtap):
    """A full disk behind standard output is a failure of each command, and told."""
    for command in (*COMMANDS, ('decompose', '--blocks'), ('decompose', '--print-rules'), ('leaks', '--marks=x')):
        with open('/dev/full', 'w') as full:
            run = memtap(*command, golden('train_mstx'), stdout=full)
        assert run.status == 1 and 'tandard output' in run.err, (command, run.status, run.err)
