# SPDX-License-Identifier: Apache-2.0
"""Python functions whose method table code fills in at import: found then, and the time before is told."""
import os
import sys

import compare as C
import truth as T
from basic import BasicTest
from harness import alone, sim

MODULE = os.path.join('python_late', 'torch_npu')
ALL = {'_mark_on_host', '_mark', '_range_start_on_host', '_range_start', '_range_push_on_host', '_range_push',
       '_range_pop', '_range_end'}
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'sim', 'sim_marks.py')


class Later(BasicTest):
    def setUp(self):
        super().setUp()
        if not os.path.exists(sim(MODULE)):
            self.skipTest('the simulation has no extension modules: no Python headers')

    def python(self, *args, table='heap', held=True, **kw):
        """Before its import, which if held does not end before imports() lets it."""
        gate = self.path(self.number('gate'))
        env = {'PYTHONPATH': sim('python_late'), 'SIM_PY_TABLE': table}
        if held:
            env['SIM_PY_IMPORT'] = gate
        job = self.job('--root', sim(), *args, prefix=[sys.executable], exe=SCRIPT, env=env, start=False, **kw)
        job.gate = gate
        return job

    def imports(self, job, rec=None, started=False):
        """It has the file mapped for some time, then imports it and marks, for 1 s after `rec` has noticed."""
        if not started:
            job.go()
            self.pause(0.4)
        open(job.gate, 'w').close()
        job.until('MARKING')
        if rec:
            rec.until('can be probed only since', 'stderr')
            self.pause(1)

    def stop(self, job):
        job.line()
        self.assertEqual(job.finish(), 0, job.stderr())

    def late(self, result, *pids):
        """What the run says of one late find of all functions: of the first of these processes, which may miss it."""
        s = result.summary
        late = [l for l in s['late_functions'] if sim(MODULE) in l['path']]
        self.assertEqual(sorted((l['pid'], set(l['functions'].split()) == ALL) for l in late),
                         sorted((p, True) for p in pids), result.stderr)
        self.assertFalse([l for l in s['late_libraries'] if sim(MODULE) in l['path']])
        told = [l for l in result.stderr.splitlines() if 'can be probed only since' in l and sim(MODULE) in l]
        self.assertEqual(len(told), 1, told)
        offset = s['boot_to_real_ns']
        for l in late:
            self.assertIn(f'(pid {l["pid"]}): {l["functions"]}; calls of the {l["gap_ns"] / 1e6:.1f} ms before they '
                          'were probed may be missing', result.stderr)
            lost = [r['attr'] for r in result.rows if r['type'] == 'LOST' and r['pid'] == l['pid']
                    and r['attr']['reason'] == 'late Python functions']
            self.assertEqual([(a['probe'], a['library'], a['count'], int(a['first']), int(a['last'])) for a in lost],
                             [(l['functions'], l['path'], 'N/A', l['first_boot_ns'] + offset,
                               l['last_boot_ns'] + offset)])
        return next(l for l in late if l['pid'] == pids[0])

    def gap_is_true(self, result, late, jobs, within=True):
        """No mark of the recording is from before the time that may be missing; within: some are from within it."""
        first = min(r['t0'] for r in self.records(jobs)
                    if T.is_mark(r['fn']) and r['t0'] >= result.summary['attached_boot_ns'])
        self.assertGreaterEqual(first, late['first_boot_ns'])
        if within:
            self.assertLess(first, late['last_boot_ns'])

    def whole_from(self, result, jobs, begin, least=500):
        """Each mark from then on has one row, and so may one before."""
        self.agree(result, jobs, from_start=False, window=(begin, result.summary['stopped_boot_ns']), least=least)

    def test_import_after_the_attach(self):
        for table in ('heap', 'data'):
            job = self.python(table=table)
            rec = self.record('-p', job.pid)
            self.imports(job, rec)
            self.stop(job)
            result = rec.ended()
            late = self.late(result, job.pid)
            self.assertEqual(result.summary['functions_unseen'], 0)
            # of the time since the mapping, and what one look takes
            self.assertLess(late['gap_ns'], 500 * T.NS_MS)
            self.gap_is_true(result, late, job)
            self.whole_from(result, job, late['last_boot_ns'])

    def test_by_perf_uprobes(self):
        job = self.python()
        rec = self.record('-p', job.pid, '--level', '0', env={'MEMTAP_DISABLE': 'multi,session,cookie'})
        self.imports(job, rec)
        self.stop(job)
        result = rec.ended(120)
        late = self.late(result, job.pid)
        self.gap_is_true(result, late, job)
        self.whole_from(result, job, late['last_boot_ns'])

    def test_attach_during_the_import(self):
        job = self.python()
        job.go()
        self.pause(0.4)
        rec = self.record('-p', job.pid)
        self.pause(0.4)
        self.imports(job, rec, started=True)
        self.stop(job)
        result = rec.ended()
        late = self.late(result, job.pid)
        self.gap_is_true(result, late, job)
        self.whole_from(result, job, late['last_boot_ns'])

    def test_command(self):
        truth = self.path('cmd.truth')
        gate = self.path('gate')
        env = {'PYTHONPATH': sim('python_late'), 'SIM_PY_IMPORT': gate}
        rec = self.record('--', sys.executable, SCRIPT, '--root', sim(), '--truth', truth, '--seconds', 3, env=env)
        self.pause(0.8)
        open(gate, 'w').close()
        result = rec.ended()
        pid = int(result.stdout.split('MARKING ')[1].split()[0])
        late = self.late(result, pid)
        self.gap_is_true(result, late, truth)
        self.whole_from(result, truth, late['last_boot_ns'])

    def test_imported_already(self):
        """Found at once, and nothing is late."""
        for table in ('heap', 'data'):
            job = self.python(table=table)
            self.imports(job)
            rec = self.record('-p', job.pid)
            self.pause(1)
            self.stop(job)
            result = rec.ended()
            self.assertEqual((result.summary['late_functions'], result.summary['functions_unseen']), ([], 0))
            self.agree(result, job, from_start=False, least=500)

    def test_one_of_several_has_imported(self):
        """The first to be looked at may be the one that has not; any will do."""
        for order in (1, -1):
            stuck, job = [self.python(), self.python()][::order]
            stuck.go()
            self.imports(job)
            self.pause(0.3)
            rec = self.record('-p', f'{stuck.pid},{job.pid}')
            self.pause(1)
            self.stop(job)
            stuck.kill()
            result = rec.ended()
            self.assertEqual((result.summary['late_functions'], result.summary['functions_unseen']), ([], 0))
            self.agree(result, job, from_start=False, least=500)

    @alone
    def test_one_of_several_imports_late(self):
        stuck, job = self.python(), self.python()
        stuck.go()
        rec = self.record('-a')
        self.pause(1)  # the pauses have grown
        self.imports(job, rec)
        self.stop(job)
        stuck.kill()
        result = rec.stop()
        result._rows = [r for r in result.rows if r['pid'] in (job.pid, stuck.pid)]
        late = self.late(result, job.pid, stuck.pid)
        self.gap_is_true(result, late, job)
        window = late['last_boot_ns'], result.summary['stopped_boot_ns']
        report = C.compare(result.rows, self.records(job), result.summary, T.Rules(from_start=False), window=window)
        self.assertFalse(list(report))
        self.assertGreater(report.matched, 500)

    def test_forked(self):
        """A child has the file from its parent: nobody is told of a mapping."""
        for when in ('early', 'late'):
            job = self.python('--fork', when)
            rec = self.record('-p', job.pid)
            self.imports(job, rec)
            self.stop(job)
            result = rec.ended()
            child = int(job.until('MARKING').split()[1])
            late = self.late(result, child, job.pid)
            # the child may mark nothing until it is probed
            self.gap_is_true(result, late, job, within=False)
            self.whole_from(result, job, late['last_boot_ns'])

    def test_never_imported(self):
        """Nothing is missing for sure, but it may be: told, and --strict fails."""
        job = self.python()
        rec = self.record('-p', job.pid, '--strict')
        job.go()
        self.pause(0.6)
        job.kill()
        result = rec.ended()
        self.assertEqual(result.rc, 3, result.stderr)
        # of one the name is but the end of a longer text, which any file may have
        self.assertEqual((result.summary['late_functions'], result.summary['functions_unseen']), ([], len(ALL) - 1))
        self.assertRegex(result.stderr, r'Python functions of \S+ that are not probed: 7, in no method table')

    def test_strict(self):
        job = self.python()
        rec = self.record('-p', job.pid, '--strict')
        self.imports(job, rec)
        self.stop(job)
        result = rec.ended()
        self.assertEqual(result.rc, 3, result.stderr)
        self.late(result, job.pid)
