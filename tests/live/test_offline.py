# SPDX-License-Identifier: Apache-2.0
"""The commands on dump files take what `memtap record` writes, in every form, and add it up right."""
import csv
import io

import readers
from basic import BasicTest

MEMORY = ('MALLOC', 'FREE')


class Offline(BasicTest):
    def command(self, name, *args):
        done = self.run_memtap(name, *args, '--strict')
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def live_at_end(self, rows):
        """Bytes and blocks that live at the end, and all bytes, of each (pid, device, type)."""
        live, total = {}, {}
        for r in sorted((r for r in rows if r['event'] in MEMORY), key=lambda r: r['time']):
            key = (str(r['pid']), r['device'], r['type'])
            if r['event'] == 'MALLOC':
                live.setdefault(key, {})[r['ptr']] = int(r['attr']['size'])
                total[key] = total.get(key, 0) + int(r['attr']['size'])
            else:
                live.get(key, {}).pop(r['ptr'], None)
        return {k: (sum(live[k].values()), len(live[k]), total[k]) for k in live}

    def check(self, result):
        want = self.live_at_end(result.rows)
        got = {}
        for r in csv.DictReader(io.StringIO(self.command('decompose', '--format=csv', result.dir))):
            k = (r['Process Id'], r['Device Id'], r['Event Type'])
            a, b, c = got.get(k, (0, 0, 0))
            got[k] = (a + int(r['End(byte)']), b + int(r['End blocks']), c + int(r['Allocated(byte)']))
        self.assertEqual(got, want)
        self.assertEqual(self.command('leaks', '--hal', result.dir).count('Leak memory in Malloc'),
                         sum(v[1] for k, v in want.items() if k[2] == 'HAL'))
        pools = {(k[0], k[1]) for k in want if k[2] in ('PTA', 'ATB', 'MINDSPORE')}
        self.assertTrue(pools)
        self.assertEqual(self.command('gap', result.dir).count('Gap Analysis'), len(pools))
        self.assertIn(self.command('gap', result.dir), self.command('leaks', result.dir))
        self.command('inefficient', result.dir)
        self.command('compare', '--level=1', result.dir, result.dir)
        # Cut into all that is there, it is the same.
        for fmt in ('csv', 'db'):
            out = self.path('cut-' + fmt + str(result.db))
            self.command('cut', '-o', out, '--data-format', fmt, result.dir)
            path = readers.dump_of(out, fmt)
            rows = readers.read_csv(path) if fmt == 'csv' else readers.read_db(path) + readers.read_preattach(path)
            key = lambda r: (r['pid'], r['id'])
            self.assertEqual(sorted(rows, key=key), sorted(result.rows, key=key))
            self.assertEqual(self.command('decompose', out), self.command('decompose', result.dir))

    def test_csv(self):
        result, _ = self.traced('--threads', 2, '--devices', 2)
        self.check(result)

    def test_db(self):
        result, _ = self.traced('--threads', 2, '--devices', 2, db=True)
        self.check(result)

    def test_order_and_stacks(self):
        result, _ = self.traced('--threads', 2, rec=('--order', 'block', '--call-stack', 'c'), rate=1000)
        self.check(result)

    def test_middle(self):
        """Blocks from before the attach are no blocks, but no error either."""
        result, _ = self.cut_out('--threads', 2)
        self.check(result)
