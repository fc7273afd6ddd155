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
