# SPDX-License-Identifier: Apache-2.0
"""ATB in its releases and both ABIs of std::string: rows against what the program says that it ran."""
import re
import time

import harness
import readers
from atbrows import only, row_text, rows, said

VARIANTS = [(gen, abi) for gen in ('80', '81', '82') for abi in '01']
ROUNDS = 20000  # more than a second of them, on the fastest machine
ALL = ('--level=0,1', '--events=alloc,launch,access')


def program(gen, abi):
    return harness.sim('atb', gen, 'cxx_abi_' + abi, 'lib', f'sim-atb-{gen}-{abi}')


class Atb(harness.LiveTest):
    def traced(self, *options, gen='82', abi='1', rounds=3, threads=1, many=False, env=None, jobenv=None, lost=0,
               start=True):
        """lost: tensors of each start and end of a runner."""
        args = [rounds, threads] + (['many'] if many else [])
        if start:
            p = self.start('atb', [program(gen, abi), *args], env=jobenv)
            p.until('READY', 'stderr')
            rec = self.record('-p', p.pid, *options, env=env)
            p.line()
            p.until('DONE', 'stderr')
            result = rec.stop()
            p.line()
            p.wait()
            text = p.stdout()
        else:
            rec = self.record(*options, '--', program(gen, abi), *args, env=env, attached=False)
            rec.until('READY', 'stderr')
            rec.line()
            rec.until('DONE', 'stderr')
            rec.line()
            result = rec.ended()
            text = ''.join(x + '\n' for x in rec.stdout().splitlines() if x.split()[0].isdigit())
        self.assertTrue(result.summary['accounting']['exact'], result.stderr)
        want = said(text)
        runs = sum(map(len, only(want, 'ATB_START', 'ATB_END').values()))
        self.assertEqual(result.summary['accounting']['lost'], lost * runs, result.summary['losses'])
        return result, want

    def check_all(self, result, want):
        self.assertGreater(len(want), 0)
        got = rows(result.rows)
        self.assertEqual(sorted(got), sorted(want))
        for tid, lines in want.items():
            self.assertEqual(got[tid], lines)

    def test_releases(self):
        """All rows, of each release with each ABI; operations that fail and that throw among them."""
        for gen, abi in VARIANTS:
            with self.subTest(release=gen, abi=abi):
                result, want = self.traced(*ALL, gen=gen, abi=abi)
                lines = next(iter(want.values()))
                self.assertGreater(len(lines), 700)
                starts, ends = (len(only(want, x)[next(iter(want))]) for x in ('ATB_START', 'ATB_END'))
                self.assertGreater(starts, ends)  # what is thrown has no end
                self.check_all(result, want)
                self.check_details(result)

    def check_details(self, result):
        notes = {}
        for r in result.rows:
            text = row_text(r)
            if not text:
                continue
            self.assertEqual(r['device'], '0')
            if r['type'] == 'ATB_END':
                notes.setdefault(r['name'], set()).add(r['attr'].get('note'))
            if r['event'] == 'ACCESS':
                self.assertEqual(r['attr']['type'], 'ATB')
            if r['event'] in ('MALLOC', 'FREE'):
                used = '4096' if r['event'] == 'MALLOC' else '0'
                self.assertEqual((r['attr']['used'], r['attr']['total']), (used, used), r)
        self.assertEqual(notes['ElewiseOperation'], {None})
        self.assertEqual(notes['BadOperation'], {'failed with 6'})
        self.assertEqual(notes['BadGraph'], {'failed with 6'})
        # The tensor in the workspace belongs to its block, all others to blocks nobody has seen.
        block, strays = None, {}
        for r in result.rows:
            if r['event'] == 'MALLOC' and r['type'] == 'ATB':
                block = r['attr']['allocation_id'], r['ptr']
            elif r['event'] == 'FREE' and r['type'] == 'ATB':
                self.assertEqual(r['attr']['allocation_id'], block[0])
                block = None
            elif r['event'] == 'ACCESS':
                if block and block[1] <= r['ptr'] < block[1] + 4096:
                    self.assertEqual(r['attr']['allocation_id'], block[0])
                else:
                    first = strays.setdefault(r['ptr'], r['attr']['allocation_id'])
                    self.assertEqual(r['attr']['allocation_id'], first)
        self.assertGreater(len(strays), 2)

    def test_threads(self):
        """Each thread has its own nesting, device and workspace."""
        result, want = self.traced(*ALL, threads=4, rounds=4)
        self.assertEqual(len(want), 4)
        self.check_all(result, want)
        devices = {r['tid']: set() for r in result.rows if row_text(r)}
        for r in result.rows:
            if row_text(r):
                devices[r['tid']].add(r['device'])
        self.assertEqual(sorted(x for v in devices.values() for x in v), list('0123'))

    def test_from_the_start(self):
        result, want = self.traced(*ALL, start=False)
        self.check_all(result, want)

    def test_own_dump(self):
        """What ATB itself would save tensors to is what memtap makes of the runners."""
        result, want = self.traced(*ALL, jobenv={'SIM_ATB_DUMP': '1'})
        self.check_all(result, want)

    def test_late(self):
        """Attached while operations run: no row of one whose begin was not seen, and no wrong path."""
        p = self.start('atb', [program('82', '0'), ROUNDS])
        p.until('READY', 'stderr')
        p.line()
        rec = self.record('-p', p.pid, '--level=0,1', '--events=launch', '-d', '1')
        result = rec.ended()
        p.until('DONE', 'stderr')
        p.line()
        p.wait()
        want = said(p.stdout())
        self.assertTrue(result.summary['accounting']['exact'])
        got = rows(result.rows)
        self.assertEqual(sorted(got), sorted(want))
        for tid, lines in got.items():
            self.assertGreater(len(lines), 100)
            known = {x.replace(f' 0_{p.pid}/', f' ?_{p.pid}/') for x in want[tid]}  # which device nothing has told
            self.assertEqual([x for x in lines if x not in known and ' N/A' not in x], [])
            # Only what was under way: all before the first begin that was seen, and less than one round.
            unknown = len([x for x in lines if ' N/A' in x])
            self.assertEqual([x for x in lines[:unknown] if ' N/A' not in x], [])
            self.assertLess(unknown, len(want[tid]) // ROUNDS)

    def test_chosen(self):
        """--level and --events."""
        for options, words in (
                (('--level=0', '--events=launch'), ('ATB_START', 'ATB_END')),
                (('--level=1', '--events=launch'), ('KERNEL_START', 'KERNEL_END')),
                (('--level=0,1', '--events=alloc'), ('MALLOC', 'FREE'))):
            result, want = self.traced(*options, rounds=2)
            self.check_all(result, only(want, *words))
        result, want = self.traced('--level=0', '--events=access', rounds=2)
        want = {t: [x for x in v if x.split()[0] in ('UNKNOWN', 'WRITE', 'MALLOC', 'FREE') and ' TENSOR_' not in x]
                for t, v in want.items()}
        got = only(rows(result.rows), 'UNKNOWN', 'WRITE')
        self.assertEqual(got, only(want, 'UNKNOWN', 'WRITE'))

    def test_paused(self):
        """Nothing of operators until a start, not even work for the reader; then all, until a stop."""
        p = self.start('atb', [program('82', '1'), 400])
        p.until('READY', 'stderr')
        rec = self.record('-p', p.pid, '--collect-mode=custom', '--level=0,1', '--events=launch')
        time.sleep(0.5)  # the programs are told soon after the attach
        p.line()
        p.until('DONE', 'stderr')
        result = rec.stop()
        p.line()
        p.wait()
        self.assertEqual(rows(result.rows), {})
        self.assertTrue(result.summary['accounting']['exact'])
        self.assertLess(result.summary['accounting']['seen'], 100)
        p = self.start('atb', [program('82', '1'), 30000])
        p.until('READY', 'stderr')
        rec = self.record('-p', p.pid, '--collect-mode=custom', '--level=0,1', '--events=launch')
        p.line()
        r = self.run_memtap('ctl', p.pid, 'start')
        self.assertEqual(r.returncode, 0, r.stderr)
        time.sleep(0.3)
        r = self.run_memtap('ctl', p.pid, 'stop')
        self.assertEqual(r.returncode, 0, r.stderr)
        result = rec.stop()
        p.kill()
        self.assertTrue(result.summary['accounting']['exact'])
        got = [x.split()[0] for v in rows(result.rows).values() for x in v]
        self.assertGreater(min(map(got.count, ('ATB_START', 'ATB_END', 'KERNEL_START', 'KERNEL_END'))), 50)

    def test_many(self):
        """More tensors than are looked at: each is counted."""
        result, want = self.traced('--level=0', '--events=access,launch', rounds=1, many=True, lost=93 + 92 - 128)
        self.assertEqual({x['reason'] for x in result.summary['losses']}, {'too many blocks in a call'})
        self.check_all(result, {t: [x for x in v if 'TENSOR_' not in x and not x.startswith('KERNEL_')]
                                for t, v in want.items()})

    def test_weak_kernels(self):
        """Without uprobe_multi, sessions, cookies, sleeping programs."""
        for off in ('multi,session', 'multi,session,cookie', 'sleepable'):
            with self.subTest(off=off):
                result, want = self.traced(*ALL, '--ops=^$', rounds=2, env={'MEMTAP_DISABLE': off})
                self.check_all(result, want)

    def test_db(self):
        """The same rows in a db, which the readers of dumps take."""
        p = self.start('atb', [program('82', '1'), 3])
        p.until('READY', 'stderr')
        rec = self.record('-p', p.pid, *ALL, db=True)
        p.line()
        p.until('DONE', 'stderr')
        result = rec.stop()
        p.line()
        p.wait()
        self.check_all(result, said(p.stdout()))
        r = self.run_memtap('watch', '--address=0x12c041a00000', result.dump)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn('ElewiseOperation', r.stdout)

    def front(self, *options, gen='82', abi='0', rounds=3):
        d = self.path(self.number('front'))
        r = self.run_memtap('msleaks', '--output=' + d, *options, '--', program(gen, abi), rounds)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertNotIn('not traced yet', r.stderr)
        text = [x for x in r.stdout.splitlines() if re.match(r'\d+ [A-Z]', x)]
        return readers.dump_of(d), said('\n'.join(text)), r

    def test_front(self):
        """The vendor's rows: its grammar to the letter, its blocks together, no attribute more."""
        path, want, _ = self.front('--level=0,1', '--events=alloc,free,launch,access')
        with open(path) as f:
            lines = f.read().splitlines()
        grammar = (
            r'\d+,OP_LAUNCH,ATB_(START|END),\w+,\d+,\d+,\d+,0,N/A,'
            r'"\{path:0_\d+/\d+/\d+_\w+(/\d+_\w+)*,workspace_ptr:(0|0x[0-9a-f]+),workspace_size:\d+\}",,',
            r'\d+,KERNEL_LAUNCH,KERNEL_(START|END),\d+_\w+,\d+,\d+,\d+,0,N/A,'
            r'"\{path:0_\d+/\d+/\d+_\w+(/\d+_\w+)*/(before|after)\}",,',
            r'\d+,ACCESS,(UNKNOWN|WRITE),\w+,\d+,\d+,\d+,0,\d+,"\{allocation_id:\d+,addr:\d+,size:\d+,type:ATB,'
            r'dtype:(ACL|TENSOR_DTYPE)_\w+,format:(ACL|TENSOR)_FORMAT_\w+,shape:\[(\d+,)*\]\}",,',
            r'\d+,(MALLOC|FREE),ATB,N/A,\d+,\d+,\d+,0,\d+,'
            r'"\{allocation_id:\d+,addr:\d+,size:4096,total:\d+,used:(4096|0)\}",,')
        seen = [0] * len(grammar)
        for line in lines:
            if re.match(r'\d+,(OP_LAUNCH|ACCESS|KERNEL_LAUNCH,KERNEL_(START|END)|MALLOC,ATB|FREE,ATB),', line):
                which = [i for i, g in enumerate(grammar) if re.fullmatch(g, line)]
                self.assertEqual(len(which), 1, line)
                seen[which[0]] += 1
        self.assertTrue(all(n > 20 for n in seen), seen)
        got = {}
        rows_ = readers.read_csv(path)
        for r in sorted(rows_, key=lambda r: r['id']):
            if row_text(r):
                got.setdefault(r['tid'], []).append(row_text(r))
        self.assertEqual(got, want)
        # Each registration of the heap adds to the total.
        totals = [int(r['attr']['total']) for r in sorted(rows_, key=lambda r: r['id'])
                  if r['event'] == 'MALLOC' and r['type'] == 'ATB']
        self.assertEqual(totals, [4096 * (i + 1) for i in range(len(totals))])
        # The rows of a block stand together.
        at = [i for i, r in enumerate(rows_) if r['type'] == 'ATB' and r['event'] in ('MALLOC', 'FREE')]
        for a, b in zip(at[::2], at[1::2]):
            self.assertEqual((rows_[a]['event'], rows_[b]['event']), ('MALLOC', 'FREE'))
            self.assertEqual({r['attr']['allocation_id'] for r in rows_[a:b + 1]},
                             {rows_[a]['attr']['allocation_id']})

    def test_front_older(self):
        """Releases that tell mstx nothing: the vendor's tool has no blocks of them."""
        path, want, _ = self.front('--level=0,1', '--events=alloc,free,launch', gen='81')
        words = {r['type'] for r in readers.read_csv(path)}
        self.assertNotIn('ATB', words)
        self.assertLessEqual({'ATB_START', 'ATB_END', 'KERNEL_START', 'KERNEL_END'}, words)
        path, _, _ = self.front('--extended', '--level=0', '--events=alloc,free', gen='81')
        self.assertIn('ATB', {r['type'] for r in readers.read_csv(path)})

    def test_analyses(self):
        """Operators of ATB are the clock of its blocks; they have an owner."""
        path, _, r = self.front('--level=0,1', '--events=alloc,free,launch,access', '--analysis=inefficient,decompose')
        owners = {x['attr'].get('owner') for x in readers.read_csv(path) if x['event'] == 'MALLOC'
                  and x['type'] == 'ATB'}
        self.assertEqual(owners, {'ATB'})
        self.assertIn('Inefficient memory: 0 of 16 block(s)', r.stdout)
        r = self.run_memtap('inefficient', '--idle-threshold=1', path)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn('ATB block of', r.stdout)
        r = self.run_memtap('decompose', path)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn('ATB', r.stdout)
