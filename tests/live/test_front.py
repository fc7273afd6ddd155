# SPDX-License-Identifier: Apache-2.0
"""The vendor's command line: its rows where it has them and no others, its console, its steps."""
import collections
import glob
import os
import re
from unittest import mock

import compare as C
import readers
import truth as T
from basic import BasicTest
from harness import clock_offset, memtap, sim

ATTRS = {'allocation_id', 'addr', 'size', 'total', 'used', 'streamId', 'taskId'}
ALWAYS = ('--level=0,1',)
LIBS = ('cann/lib64', 'torch/lib', 'torch_npu_c/lib')


def vendor_due(records, rules, of=T.expected):
    """What is due of what record would write: without its attributes, without host memory and failures."""
    for e in of(records, rules):
        if e.type in ('HOST_PINNED', 'OOM_TRIGGER') or 'host' in (e.device, e.fields.get('device')):
            continue
        e.attrs = {}
        if e.event in ('KERNEL_LAUNCH', 'MSTX'):
            e.check = None
        yield e


class Front(BasicTest):
    def front(self, *options, job=('--steps', 6), prog=None, rc=0):
        """The front end on a job that has ended: what it left behind."""
        name = self.number('front')
        d, truth = self.path(name + '.d'), self.path(name + '.truth')
        argv = prog or ['--', sim('sim-train'), *job]
        # Where it would look for its libraries: they are probed ahead.
        env = {'LD_LIBRARY_PATH': ':'.join(sim(x) for x in LIBS), 'SIM_TRAIN_STARTED': 1, 'SIM_TRUTH': truth}
        p = self.start(name, [memtap(), 'msleaks', '--output=' + d, *options, *argv], env=env)
        self.assertEqual(p.wait(), rc, p.stderr())
        p.dir, p.truth_base = d, truth
        dumps = glob.glob(d + '/dump/*_dump_*')
        self.assertLessEqual(len(dumps), 1)
        p.dump = dumps[0] if dumps else None
        p.rows = []
        if p.dump:
            p.rows = (readers.read_db if p.dump.endswith('.db') else readers.read_csv)(p.dump)
        return p

    def agrees(self, p, skip=(), first=1):
        """Each call has its row, each row its call; numbers, attributes and the begin are the vendor's."""
        records = self.records(p.truth_base)
        window = min(r['t0'] for r in records) - 1, max(r['t1'] for r in records) + 1
        with mock.patch.object(T, 'expected', vendor_due):
            report = C.compare(p.rows, records, None, T.Rules(), offset=clock_offset(), eps=100000,
                               skip=skip, window=window)
        self.assertEqual(list(report)[:10], [], p.stderr())
        self.assertGreater(report.matched, 100)
        by_id = sorted(p.rows, key=lambda r: r['id'])
        self.assertEqual([r['id'] for r in by_id], list(range(first, first + len(by_id))))
        self.assertEqual(set().union(*(r['attr'] for r in p.rows)) - ATTRS, set())
        kinds = {r['type'] for r in p.rows}
        self.assertFalse(kinds & {'STOP_TRACE', 'LOST', 'HOST_PINNED', 'OOM_TRIGGER'}, kinds)
        self.assertEqual({r['device'] for r in p.rows} & {'host', 'cpu'}, set())
        return by_id

    def test_rows(self):
        p = self.front(*ALWAYS, job=('--steps', 30, '--threads', 2, '--devices', 2, '--leak'))
        by_id = self.agrees(p)
        self.assertEqual([r['type'] for r in by_id[:2]], ['ACL_INIT', 'START_TRACE'])
        self.assertEqual(sum(r['type'] == 'START_TRACE' for r in by_id), 1)
        # The rows of a block stand together.
        pairs = sum(a['event'] == 'MALLOC' and b['event'] == 'FREE' and a['allocation_id'] == b['allocation_id']
                    for a, b in zip(p.rows, p.rows[1:]))
        self.assertGreater(pairs, 0.99 * sum(r['event'] == 'FREE' for r in p.rows))
        # Kernel ordinals are the axis.
        launches = sum(r['event'] == 'KERNEL_LAUNCH' for r in p.rows)
        for events in (readers.read_trace(f) for f in readers.traces_of(p.dir).values()):
            self.assertTrue(all(0 <= e['ts'] <= launches for e in events if e['ph'] != 'M'))

    def test_defaults(self):
        """Level 0 has no kernels; nothing of it is missing."""
        p = self.front(job=('--steps', 30))
        self.agrees(p, skip={('KERNEL_LAUNCH', 'KERNEL_LAUNCH')})
        self.assertNotIn('not traced yet', p.stderr())
        self.assertNotIn('KERNEL_LAUNCH', {r['event'] for r in p.rows})

    def test_console(self):
        """A line for each file, then the leaks as memtap leaks has them."""
        p = self.front(*ALWAYS, job=('--steps', 20, '--leak'))
        lines = p.stdout().splitlines()
        told = [m.group(1) for m in (re.fullmatch(r'\[msleaks\] Info: create file (.*)\.', x) for x in lines) if m]
        files = glob.glob(p.dir + '/*/*')
        self.assertEqual(sorted(told), sorted(map(os.path.realpath, files)))
        self.assertEqual(readers.dump_of(p.dir), p.dump)
        leaks = self.run_memtap('leaks', p.dump).stdout
        self.assertIn('Gap Analysis', leaks)
        self.assertTrue(p.stdout().endswith(leaks), p.stdout()[-2000:])
        p = self.front(*ALWAYS, '--analysis=')
        self.assertNotIn('Gap Analysis', p.stdout())
        p = self.front(*ALWAYS, '--analysis=inefficient,decompose')
        for command in ('inefficient', 'decompose'):
            self.assertIn(self.run_memtap(command, p.dump).stdout, p.stdout())
        owners = {(r['type'], r['attr'].get('owner')) for r in p.rows if r['event'] == 'MALLOC'}
        self.assertIn(('PTA', 'PTA'), owners)
        self.assertTrue(all(o and (t != 'HAL' or o.startswith('CANN@')) for t, o in owners), owners)

    def test_db(self):
        p = self.front(*ALWAYS, '--data-format=db', job=('--steps', 20))
        self.agrees(p)
        self.assertIn(f'[msleaks] Info: create dbfile {os.path.realpath(p.dump)}.\n'
                      f'[msleaks] Info: create dbtable leaks_dump in {os.path.realpath(p.dump)}.\n', p.stdout())

    def test_now(self):
        p = self.front('--generation=now', '--level=op,kernel', job=('--steps', 20))
        self.assertTrue(os.path.basename(p.dump).startswith('memscope_dump_'))
        self.assertFalse(os.path.exists(p.dir + '/trace'), os.listdir(p.dir))
        by_id = sorted(p.rows, key=lambda r: r['id'])
        self.assertEqual([r['id'] for r in by_id], list(range(len(by_id))))
        self.assertEqual(by_id[0]['type'], 'ACL_INIT')
        self.assertNotIn('START_TRACE', {r['type'] for r in by_id})
        with open(p.dump) as f:
            text = f.read()
        self.assertRegex(text, r'MALLOC,PTA,N/A,\d+,\d+,\d+,0,(0x[0-9a-f]{16}),"\{allocation_id:\d+,addr:\1,size')
        self.assertIn('page_type:', text)
        self.assertIn('[msmemscope] Info: create file ', p.stdout())

    def test_steps(self):
        """Only what is inside of the chosen steps; their ends are outside."""
        p = self.front(*ALWAYS, '--steps=2\uff0c3', job=('--steps', 5))
        self.assertIn('no analysis of leaks', p.stderr())
        by_id = sorted(p.rows, key=lambda r: r['id'])
        starts = [r for r in by_id if r['name'] == 'step start']
        self.assertEqual(len(starts), 2)
        self.assertNotIn('SYSTEM', {r['event'] for r in by_id})
        self.assertEqual(by_id[0], starts[0])
        marks = [e for e in T.expected(self.records(p.truth_base), T.Rules()) if e.event == 'MSTX']
        marks.sort(key=lambda e: e.t0)
        order = [e.type == 'Range_start' and e.record['name'] == 'step start' for e in marks]
        # Marks before the second step have taken numbers, nothing else has.
        second = [i for i, is_start in enumerate(order) if is_start][1]
        self.assertEqual(by_id[0]['id'], second + 1)
        kinds = collections.Counter(r['event'] for r in by_id)
        self.assertTrue(kinds['MALLOC'] and kinds['KERNEL_LAUNCH'], kinds)

    def test_steps_of_record(self):
        job = self.job('--steps', 6, start=False)
        rec = self.record('-p', job.pid, '--steps', '1,4', '--analysis', 'leaks,decompose')
        job.go()
        self.assertEqual(job.finish(), 0, job.stderr())
        result = rec.ended()
        self.assertEqual(result.rc, 0, result.stderr)
        self.assertIn('no analysis of leaks', result.stderr)
        self.assertEqual(result.stdout, self.run_memtap('decompose', result.dump).stdout)
        self.assertEqual(sum(r['name'] == 'step start' for r in result.rows), 2)
        self.assertEqual(C.accounting(result.rows, result.summary), [])
        self.assertEqual([result.rows[0]['type'], result.rows[-1]['type']], ['START_TRACE', 'STOP_TRACE'])

    def test_extended(self):
        p = self.front(*ALWAYS, '--extended', job=('--steps', 20))
        self.assertLessEqual({'active', 'owner', 'page_type'}, set().union(*(r['attr'] for r in p.rows)))
        self.assertIn('STOP_TRACE', {r['type'] for r in p.rows})

    def test_script(self):
        """The form that the vendor's documents recommend; the shell itself has no row."""
        script = self.path('user.sh')
        with open(script, 'w') as f:
            f.write(f'cd /\n{sim("sim-train")} --steps 20\ntrue\n')
        p = self.front(*ALWAYS, prog=['bash', script])
        self.agrees(p)
        self.assertEqual(len({r['pid'] for r in p.rows}), 1)

    def test_host_ranges(self):
        """The vendor's name of a range in which it writes HOST rows, of malloc and free; the rest is as ever."""
        p = self.front('--exact-ranges', job=('--steps', 5, '--host-malloc'))
        host = [r for r in p.rows if r['type'] == 'HOST']
        due = [r for r in self.records(p.truth_base) if r['fn'] in ('malloc', 'free')]
        self.assertEqual(sorted((r['event'], r['ptr']) for r in host),
                         sorted((r['fn'].replace('malloc', 'MALLOC').replace('free', 'FREE'), r['out']) for r in due))
        self.assertGreater(len(host), 50)
        self.assertEqual({r['size'] for r in host if r['event'] == 'MALLOC'}, {r['size'] for r in due if r['fn'] == 'malloc'})
        p = self.front('--device=npu,cpu', job=('--steps', 5))
        self.assertIn('HOST', {r['type'] for r in p.rows})
        self.assertIn('HAL', {r['type'] for r in p.rows if r['device'] == 'host'})

    def test_programs_that_fail(self):
        for script, line in (('exit 3', '[msleaks] user program sh exited abnormally\n'),
                             ('kill -9 $$', '[msleaks] user program exited by signal: 9\n')):
            p = self.front(prog=['sh', '-c', script])
            self.assertEqual(p.stdout(), line)
        p = self.front(prog=['/nowhere/prog'], rc=1)
        self.assertIn('/nowhere/prog: No such file', p.stderr())

    def test_words_behind_the_program(self):
        """They are the program's."""
        p = self.front('--level=0', prog=['echo', '--level=9', '-v', '--steps', '0'])
        self.assertTrue(p.stdout().startswith('--level=9 -v --steps 0\n'), p.stdout())
        self.assertIn("'--level=9' stands behind the program", p.stderr())
        p = self.front(prog=['--', 'echo', '--level=9'])
        self.assertNotIn('stands behind', p.stderr())
