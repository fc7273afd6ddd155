# SPDX-License-Identifier: Apache-2.0
"""Operators of torch on the simulated libtorch_cpu: rows against what the program says that it called."""
import re

import harness
from oprows import rows, said


class Ops(harness.LiveTest):
    def traced(self, *options, rounds=3, env=None):
        p = self.start('ops', [harness.sim('sim-ops'), rounds])
        p.until('READY', 'stderr')
        rec = self.record('-p', p.pid, *options, env=env)
        p.line()
        p.until('DONE', 'stderr')
        result = rec.stop()
        p.line()
        p.wait()
        self.assertTrue(result.summary['accounting']['exact'])
        self.assertEqual(result.summary['accounting']['lost'], 0, result.summary['losses'])
        return result, p.stdout()

    def test_all(self):
        result, text = self.traced('--ops', '--level=0', '--events=launch,access')
        want = said(text)
        self.assertGreater(len(want), 150)
        self.assertEqual(rows(result.rows), want)
        self.assertEqual(text.count('THROWN'), 3)
        self.assertIn('THROWN', text)
        ids = {}
        for r in result.rows:
            if r['event'] == 'ACCESS':
                self.assertEqual(r['attr']['type'], 'PTA')
                # one number an address, though no block is known
                self.assertEqual(ids.setdefault(r['ptr'], r['attr']['allocation_id']), r['attr']['allocation_id'])
        self.assertGreater(len(set(ids.values())), 5)

    def test_only_starts_and_ends(self):
        result, text = self.traced('--ops', '--level=0', '--events=launch')
        self.assertEqual(rows(result.rows), [x for x in said(text) if x.startswith(('START', 'END'))])

    def test_only_accesses(self):
        result, text = self.traced('--level=0', '--events=access')
        self.assertEqual(rows(result.rows), [x for x in said(text) if x.startswith(('READ', 'WRITE'))])

    def test_chosen(self):
        result, text = self.traced(r'--ops=^aten\.(sort|cat)\.', '--level=0', '--events=launch')
        self.assertEqual(rows(result.rows), [x for x in said(text) if re.match(r'(START|END) aten\.(sort|cat)\.', x)])

    def test_not_asked(self):
        result, _ = self.traced('--level=0', '--events=alloc,launch')
        self.assertEqual(rows(result.rows), [])
        self.assertFalse([f for f in result.summary['files_probed'] if 'libtorch_cpu' in f['path']])

    def test_one_by_one(self):
        """Kernels without uprobe_multi: a chosen few, each a perf uprobe, with and without cookies."""
        result, text = self.traced('--ops=.', '--level=0', '--events=launch,access',
                                   env={'MEMTAP_DISABLE': 'multi,session'})
        self.assertEqual(rows(result.rows), said(text))
        # Here each site has a program of its own, which is verified (before 5.15 it is a stub).
        result, text = self.traced(r'--ops=\.(cat|add_|sort)\.', '--level=0', '--events=launch',
                                   env={'MEMTAP_DISABLE': 'multi,session,cookie'})
        self.assertEqual(rows(result.rows), [x for x in said(text) if re.match(r'(START|END) aten\.(cat|add_|sort)\.', x)])

    def test_with_stacks(self):
        """The programs that walk stacks, which are others: the same rows on each mechanism; C has no Python stack."""
        for options, env in ((['--ops'], None), (['--ops'], {'MEMTAP_DISABLE': 'loop'}),
                             (['--ops'], {'MEMTAP_DISABLE': 'sleepable'}),
                             ([r'--ops=\.(cat|add_|sort)\.'], {'MEMTAP_DISABLE': 'multi,session'}),
                             ([r'--ops=\.(cat|add_|sort)\.'], {'MEMTAP_DISABLE': 'loop,multi,session,cookie'})):
            result, text = self.traced(*options, '--level=0', '--events=launch,access', '--call-stack=c,python', env=env)
            chosen = len(options[0]) > 5
            want = [x for x in said(text) if not chosen or re.match(r'(START|END) aten\.(sort|cat|add_)\.', x)]
            got = [x for x in rows(result.rows) if not chosen or x.startswith(('START', 'END'))]
            self.assertEqual(got, want, env)
            self.assertEqual({r['call_py'] + r['call_c'] for r in result.rows if r['event'] in ('OP_LAUNCH', 'ACCESS')}, {''})

    def test_too_many(self):
        """Without uprobe_multi not all of them: refused, and why."""
        for options in (['--ops'], ['--events=access']):
            r = self.run_memtap('record', '-o', self.path('out'), *options, '-a', '-d', '1',
                                env={'MEMTAP_DISABLE': 'multi,session'})
            self.assertEqual(r.returncode, 1, r.stderr)
            self.assertIn('no uprobe_multi (6.6), without which at most 200 can be probed', r.stderr)
            self.assertIn('--ops=REGEX', r.stderr)

    def test_bad_options(self):
        for option, word in (('--ops=(', 'no extended regular expression'), ('--ops=', 'not valid'),
                             ('--ops --level=1', 'no row of an operator is asked for'),
                             ('--events=access --level=1', 'add 0 to --level')):
            r = self.run_memtap('record', '-o', self.path('out'), *option.split(), '-a')
            self.assertEqual(r.returncode, 2, r.stderr)
            self.assertIn(word, r.stderr)
