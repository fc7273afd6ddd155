# SPDX-License-Identifier: Apache-2.0
"""Each generation of torch_npu's records, seen whole and in the middle of a run."""
from basic import BasicTest


class Layouts(BasicTest):
    def whole(self, layout, env=None):
        result, job = self.traced('--layout', layout, '--threads', 2, '--devices', 2, '--empty-cache', 7,
                                  env=env)
        report = self.agree(result, job, layout=layout, least=1000)
        self.assertEqual(result.summary['frees_preattach'], 0)
        # seen from the first call to the last: none is open at an edge
        self.assertEqual(result.summary['accounting']['not_returned'], 0)
        self.assertEqual(result.summary['accounting']['begun_before'], 0)
        for kind in ('MALLOC PTA', 'FREE PTA', 'MALLOC HAL', 'FREE HAL', 'SYSTEM ACL_INIT',
                     'SYSTEM ACL_FINI', 'MSTX Mark', 'MSTX Range_start', 'MSTX Range_end',
                     'KERNEL_LAUNCH KERNEL_LAUNCH'):
            self.assertTrue(report.kinds[kind], f'no {kind} in the run: {report.kinds}')
        return report

    def test_a(self):
        self.whole('a')

    def test_b(self):
        report = self.whole('b', {'TASK_QUEUE_ENABLE': 2})
        self.assertTrue(report.kinds['MALLOC PTA_WORKSPACE'], report.kinds)

    def test_merged_frees(self):
        """A free names the block as it was merged with its neighbours: the row has the block's own numbers."""
        report = self.whole('b_rc2', {'TASK_QUEUE_ENABLE': 2})
        self.assertFalse(report.kinds['MALLOC PTA_WORKSPACE'], report.kinds)

    def test_c(self):
        report = self.whole('c')
        self.assertTrue(report.kinds['FREE PTA'], report.kinds)

    def test_c_symtab(self):
        self.whole('c_symtab')

    def test_c10(self):
        self.whole('c10')

    def test_workspace_c(self):
        result, job = self.traced('--layout', 'c', '--workspace', 300000, env={'TASK_QUEUE_ENABLE': 2})
        report = self.agree(result, job, layout='c')
        self.assertTrue(report.kinds['MALLOC PTA_WORKSPACE'] and report.kinds['FREE PTA_WORKSPACE'],
                        report.kinds)

    def test_attach_in_the_middle(self):
        for layout in ('a', 'b', 'c', 'c10'):
            with self.subTest(layout=layout):
                result, job = self.cut_out('--layout', layout, '--threads', 2, '--devices', 2)
                self.agree(result, job, layout=layout, from_start=False)

    def test_merged_frees_in_the_middle(self):
        """Frees of earlier blocks, too: the size is known, the address that of what it was merged with."""
        job = self.job('--seconds', 60, '--rate', 2500, '--layout', 'b_rc2')
        self.pause(0.4)
        recorder = self.record('-p', job.pid)
        self.pause(0.8)
        self.stop(job)  # what was there before the attach is freed now
        result = recorder.ended()
        truth = [r for r in self.records(job) if r['fn'] in ('pta_malloc', 'pta_free')]
        want = [('MALLOC' if r['fn'] == 'pta_malloc' else 'FREE', r['alloc']) for r in truth]
        rows = [r for r in result.rows if r['type'] == 'PTA']
        got = [(r['event'], r['used']) for r in rows]
        first = next(i for i in range(len(want)) if want[i:i + len(got)] == got)
        noted = 0
        for i, (row, record) in enumerate(zip(rows, truth[first:])):
            note = row['attr'].get('note')
            self.assertEqual((note, 'preattach' in row['attr']), (note, note == 'address after merging'))
            noted += bool(note)
            if not i and note:
                self.assertEqual(row['attr']['size'], 'N/A')
                continue
            self.assertEqual(row['size'], record['size'], row)
            if note:
                self.assertLessEqual(row['ptr'], record['out'], row)
            else:
                self.assertEqual(row['ptr'], record['out'], row)
        self.assertTrue(noted and len(rows) > 1000, (noted, len(rows)))
        self.assertEqual(result.summary['frees_preattach'], noted)
