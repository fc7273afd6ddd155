# SPDX-License-Identifier: Apache-2.0
"""Every form of the files: db, traces, orders, time axes, and the filters of what is in them."""
import collections
import re

import compare as C
import readers
from basic import BasicTest

BLOCK_TYPES = ('HAL', 'PTA', 'PTA_WORKSPACE', 'HOST_PINNED', 'MINDSPORE')
NO_BLOCKS = {(e, t) for e in ('MALLOC', 'FREE') for t in BLOCK_TYPES}
NO_LAUNCH = {('KERNEL_LAUNCH', 'KERNEL_LAUNCH')}


class Files(BasicTest):
    def test_db(self):
        result, job = self.traced('--threads', 2, '--devices', 2, '--empty-cache', 5, db=True)
        self.agree(result, job, block_order=True)
        self.assertEqual(readers.insight(result.dump), [])
        times = [r['time'] for r in readers.read_db(result.dump) if r['type'] != 'LOST']
        self.assertEqual(times, sorted(times))

    def test_db_of_the_middle(self):
        result, job = self.cut_out('--threads', 2, '--devices', 2, db=True)
        self.agree(result, job, from_start=False, block_order=True)
        self.assertEqual(readers.insight(result.dump, late_attach=True), [])

    def test_db_with_preattach(self):
        """Blocks freed that were allocated before: in a table of their own."""
        job = self.job('--steps', 60, '--rate', 2000)
        self.pause(0.5)
        rec = self.record('-p', job.pid, db=True)
        job.finish()
        result = rec.ended()
        self.agree(result, job, from_start=False, block_order=True)
        self.assertTrue(readers.read_preattach(result.dump))
        self.assertEqual(readers.insight(result.dump, late_attach=True), [])

    def check_traces(self, result, real=True):
        """Counts of the traces against the rows of the dump."""
        traces = result.traces()
        names = {k: collections.Counter(re.sub(r'\d+', 'N', e['name']) for e in v)
                 for k, v in traces.items()}
        devices = sorted({r['device'] for r in result.rows if r['device'].isdigit()})
        self.assertEqual(sorted(k for k in traces if k != 'cpu'), [f'npu{d}' for d in devices])
        for d in devices:
            rows = [r for r in result.rows if r['device'] == d]
            got = names[f'npu{d}']
            for what, n in (
                    ('kernel_N', sum(r['event'] == 'KERNEL_LAUNCH' for r in rows)),
                    ('torch allocated memory', sum(r['type'] == 'PTA' for r in rows)),
                    ('torch reserved memory', sum(r['type'] == 'PTA' for r in rows)),
                    ('mstx_mark', sum(r['type'] == 'Mark' for r in rows)),
                    ('mstx_stepN_start', sum(r['type'] == 'Range_start' and r['name'] == 'step start'
                                             for r in rows))):
                self.assertEqual(got[what], n, f'npu{d}: {what}')
        self.check_sums(result, traces, real)
        return traces

    def check_sums(self, result, traces, real):
        """Values of the counters of memory: what the rows say is there, process by process."""
        due, live, sums = collections.defaultdict(list), {}, collections.Counter()
        for r in sorted(result.rows, key=lambda r: (r['time'], r['pid'], r['id'])):
            if r['type'] not in ('HAL', 'HOST_PINNED') or r['event'] not in C.BLOCKS:
                continue
            where = r['pid'], r['type'], r['device']
            key = r['pid'], r['allocation_id']
            if r['event'] == 'MALLOC':
                live[key] = r['size']
                sums[where] += r['size']
            elif key in live:
                sums[where] -= live.pop(key)
            else:
                continue
            if r['device'].isdigit() and not real:
                continue  # the vendor's axis has no such counter
            due['cpu' if not r['device'].isdigit() else 'npu' + r['device'], r['pid']].append(sums[where])
        got = collections.defaultdict(list)
        for name, events in traces.items():
            for e in events:
                if e['name'] in ('hal memory', 'pin memory'):
                    (value,) = e['args'].values()
                    got[name, e['pid']].append(value)
        self.assertEqual({k: len(v) for k, v in got.items()}, {k: len(v) for k, v in due.items()})
        self.assertEqual(got, due)
        self.assertTrue(due)

    def test_traces(self):
        result, job = self.traced('--threads', 2, '--devices', 2)
        self.agree(result, job)
        for name, events in self.check_traces(result).items():
            open_, spans = {}, collections.Counter()
            for e in events:
                m = re.fullmatch(r'mstx_(step|range)(\d+)_(start|end)', e['name'])
                if m and m.group(3) == 'start':
                    self.assertNotIn(m.group(1, 2), open_, name)
                    open_[m.group(1, 2)] = e
                elif m:
                    start = open_.pop(m.group(1, 2))
                    self.assertEqual(start['tid'], e['tid'])
                    self.assertLessEqual(start['ts'], e['ts'])
                elif re.fullmatch(r'step \d+', e['name']):
                    spans['step'] += 1
            self.assertEqual(open_, {}, name)

    def test_timeline_of_kernels(self):
        result, job = self.traced('--threads', 2, '--devices', 2, rec=('--timeline', 'kernel'))
        self.agree(result, job)
        launches = sum(r['event'] == 'KERNEL_LAUNCH' for r in result.rows)
        for events in self.check_traces(result, real=False).values():
            for e in events:
                if e['ph'] != 'M':
                    self.assertIsInstance(e['ts'], int)
                    self.assertTrue(0 <= e['ts'] <= launches, e)

    def test_order_of_blocks(self):
        result, job = self.traced('--threads', 2, '--devices', 2, '--leak', rec=('--order', 'block'))
        self.agree(result, job, block_order=True)
        # the rows of one block stand together, in the order in which blocks end
        ended = []
        for a, b in zip(result.rows, result.rows[1:]):
            if a['event'] == 'MALLOC' and b['event'] == 'FREE' and a['allocation_id'] == b['allocation_id']:
                ended.append(b['time'])
        frees = sum(r['event'] == 'FREE' for r in result.rows)
        self.assertGreater(len(ended), frees * 0.99)
        self.check_traces(result)

    def test_order_of_blocks_db(self):
        result, job = self.traced('--threads', 2, rec=('--order', 'block'), db=True)
        self.agree(result, job, block_order=True)
        self.assertEqual(readers.insight(result.dump), [])

    def test_level(self):
        result, job = self.traced(rec=('--level', '0'))
        self.agree(result, job, skip=NO_LAUNCH)
        result, job = self.traced(rec=('--level', '1'))
        self.agree(result, job)

    def test_events(self):
        result, job = self.traced(rec=('--events', 'alloc'))
        self.agree(result, job, skip=NO_LAUNCH)
        result, job = self.traced(rec=('--events', 'launch'))
        self.agree(result, job, skip=NO_BLOCKS | {('OOM_DETAIL', 'OOM_TRIGGER')})

    def test_device(self):
        for option, wanted in (('npu:1', {'1'}), ('npu', {'0', '1', '2'}), ('cpu', {'host', 'cpu'}),
                               ('npu:0,cpu', {'0', 'host', 'cpu'})):
            with self.subTest(device=option):
                result, job = self.traced('--threads', 3, '--devices', 3, '--no-torch', seconds=0.6,
                                          rec=('--device', option, '--host-memory', 'none'))
                self.agree(result, job, keep=lambda e: e.device in wanted | {'N/A'})
                self.assertEqual({r['device'] for r in result.rows} - {'N/A'}, wanted)

    def test_odd_names(self):
        """Quotes, commas, newlines, other scripts: as they were, in csv and in db."""
        for db in (False, True):
            result, job = self.traced('--layers', 1, '--steps', 80, rate=0, db=db)
            self.agree(result, job, block_order=db)
            names = {r['name'] for r in result.rows if r['type'] == 'Mark'}
            for name in ('loss, "quoted"', 'two\nlines', 'caf\u00e9 \u6b65', '', '{json: [1, 2]}'):
                self.assertIn(name, names)

    def test_permissions(self):
        import os
        result, _ = self.traced(seconds=0.3)
        for path in result.summary['files']:
            self.assertEqual(os.stat(path).st_mode & 0o077, 0, path)
        self.assertEqual(os.stat(result.dir).st_mode & 0o027, 0)

    def test_empty(self):
        """A job that does nothing: files that can be read, two rows."""
        for db in (False, True):
            job = self.job('--steps', 1, start=False)
            result = self.record('-p', job.pid, '-d', 0.3, db=db).ended()
            self.assertEqual(result.rc, 0, result.stderr)
            self.assertEqual([r['type'] for r in result.rows], ['START_TRACE', 'STOP_TRACE'])
            self.assertEqual(C.accounting(result.rows, result.summary), [])
