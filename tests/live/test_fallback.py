# SPDX-License-Identifier: Apache-2.0
"""torch_npu without a report function, or with one that must not be believed: what is seen then."""
import re

import compare as C
import truth as T
from basic import BasicTest

GIB8 = {'SIM_HBM_BYTES': 8 << 30}


def npu_file(result):
    return next(f for f in result.summary['files_probed'] if f['path'].endswith('libtorch_npu.so'))


class Fallback(BasicTest):
    def test_functions(self):
        result, job = self.traced('--layout', 'none', '--threads', 2, '--devices', 2, '--empty-cache', 7)
        # empty_cache of one thread changes the reserved bytes of all devices.
        report = self.agree(result, job, layout='none', least=1000, shared=True)
        self.assertTrue(report.kinds['MALLOC PTA'] and report.kinds['FREE PTA'], report.kinds)
        self.assertEqual(result.summary['accounting']['not_returned'], 0)
        self.assertEqual(npu_file(result)['attached'], 2)
        self.assertFalse(npu_file(result)['segments_only'])

    def test_functions_shared(self):
        result, job = self.traced('--layout', 'none', '--threads', 4, '--devices', 2, rate=1500)
        self.agree(result, job, layout='none', shared=True)

    def test_functions_in_the_middle(self):
        result, job = self.cut_out('--layout', 'none', '--threads', 2, '--devices', 2)
        self.agree(result, job, layout='none', from_start=False)

    def test_exceptions(self):
        """Out of memory leaves malloc without a `ret`."""
        result, job = self.traced('--layout', 'none', '--oom', '--exceptions', '--empty-cache', 7, env=GIB8)
        self.agree(result, job, layout='none')
        thrown = int(re.search(r'(\d+) out of memory', job.stdout())[1])
        a = result.summary['accounting']
        self.assertGreater(thrown, 2)
        self.assertEqual(a['not_returned'] + a['abandoned'], thrown, a)

    def test_segments(self):
        """Nothing to derive: the rows of the driver say which are segments."""
        result, job = self.traced('--layout', 'opaque', '--empty-cache', 7,
                                  env={'TASK_QUEUE_ENABLE': 2, 'SIM_NESTED': 3})
        self.agree(result, job, layout='opaque')
        self.segments(result, job, 'halMemAlloc')
        self.assertEqual(result.stderr.count('only the driver\'s segments'), 2, result.stderr)
        self.assertTrue(npu_file(result)['segments_only'])

    def test_strict(self):
        result, _ = self.traced('--layout', 'opaque', seconds=0.5, rec=('--strict',))
        self.assertEqual(result.rc, 3, result.stderr)

    def test_segments_expandable(self):
        result, job = self.traced('--layout', 'opaque', '--empty-cache', 7,
                                  env={'PYTORCH_NPU_ALLOC_CONF': 'expandable_segments:True'})
        self.segments(result, job, 'halMemCreate')

    def test_segments_late_and_forked(self):
        result, job = self.traced('--layout', 'opaque', '--ranks', 2, '--late-dlopen', 0.3)
        self.agree(result, job, layout='opaque')
        noted = {r['pid'] for r in result.rows if r['attr'].get('note') == 'segment'}
        self.assertEqual(noted, set(job.ranks()))

    def test_no_note_without_need(self):
        result, _ = self.traced('--layout', 'none', seconds=0.5)
        self.assertFalse([r for r in result.rows if r['attr'].get('note') == 'segment'])

    def segments(self, result, job, fn):
        calls = [r for r in self.records(job) if r['fn'] in ('aclrtMallocAlign32', 'aclrtMallocPhysical')
                 and (r['fn'] == 'aclrtMallocPhysical' or r['args'][2] in (0, 6))]
        want = set()
        for r in self.records(job):
            if r['fn'] in ('halMemAlloc', 'halMemCreate') and r['ret'] == 0 and \
                    any(c['tid'] == r['tid'] and c['t0'] <= r['t0'] and r['t1'] <= c['t1'] for c in calls):
                want.add((r['out'], r['size']))
        self.assertTrue(any(r['fn'] == fn for r in self.records(job)))
        got = {(r['ptr'], r['size']) for r in result.rows if r['attr'].get('note') == 'segment'}
        self.assertTrue(want)
        self.assertEqual(got, want)


class SelfCheck(BasicTest):
    BAD = 40

    def parts(self, result, job):
        """Rows of the pool by the report, then by the functions; and all others."""
        self.assertEqual(result.rc, 0, result.stderr)
        s, f = result.summary, npu_file(result)
        self.assertTrue(f['withdrawn'], f)
        self.assertIn('device type', f['why'])
        self.assertIn('withdrawn', result.stderr)
        self.assertTrue(s['without_row']['withdrawn probes'] > 0, s['without_row'])
        bad = C.invariants(result.rows) + C.accounting(result.rows, s)
        records, since = self.records(job), f['instead_boot_ns']
        reported = sorted((r for r in records if r['fn'].startswith(('pta_', 'ws_'))), key=lambda r: r['t0'])
        # only the report tells the active bytes of a block
        pool = [r for r in result.rows if r['type'].startswith('PTA')]
        before = [r for r in pool if r['type'] != 'PTA' or 'active' in r['attr']]
        after = [r for r in pool if r['type'] == 'PTA' and 'active' not in r['attr']]
        bad += C.compare([r for r in result.rows if not r['type'].startswith('PTA')], records, s,
                         T.Rules(), keep=lambda e: not e.type.startswith('PTA'))
        bad += C.compare(before, records, s, T.Rules(), keep=lambda e: e.type.startswith('PTA'),
                         window=(s['attached_boot_ns'], reported[self.BAD - 4]['t1']))
        return before, after, bad, records, since

    def test_falls_back(self):
        result, job = self.traced('--empty-cache', 7, env={'SIM_BAD_REPORT': self.BAD}, seconds=2.6)
        before, after, bad, records, since = self.parts(result, job)
        self.assertIn('own functions', npu_file(result)['instead'])
        self.assertFalse(npu_file(result)['segments_only'])
        self.assertEqual(npu_file(result)['attached'], 2)
        report = C.compare(after, records, result.summary, T.Rules(layout='none', from_start=False),
                           keep=lambda e: e.type == 'PTA', window=(since, result.summary['stopped_boot_ns']))
        if bad or report:
            self.fail(self.show(bad + report, result))
        self.assertGreater(report.matched, 300)
        born = {r['allocation_id'] for r in before if r['event'] == 'MALLOC'}
        pairs = [r for r in after if r['event'] == 'FREE' and r['allocation_id'] in born]
        self.assertTrue(pairs, 'no block of before was freed after')

    def test_segments_at_last(self):
        result, job = self.traced('--layout', 'opaque_c', env={'SIM_BAD_REPORT': self.BAD}, seconds=2.6)
        _, after, bad, _, since = self.parts(result, job)
        if bad:
            self.fail(self.show(bad, result))
        self.assertFalse(after)
        self.assertTrue(npu_file(result)['segments_only'])
        self.assertIn('the driver\'s segments', result.stderr)

    def several(self, *envs):
        """Jobs on one library, the first a little earlier, seen from their first calls."""
        jobs = [self.job('--seconds', 2.0, '--rate', 1500, '--seed', n, start=False, env=env)
                for n, env in enumerate(envs)]
        rec = self.record('-p', ','.join(str(j.pid) for j in jobs), '--strict')
        for n, job in enumerate(jobs):
            job.go()
            if not n:
                self.pause(0.4)
        for job in jobs:
            job.finish()
        result = rec.ended()
        self.assertEqual(result.rc, 3, result.stderr)
        self.assertEqual(C.invariants(result.rows) + C.accounting(result.rows, result.summary), [])
        return result, jobs

    def test_one_of_several(self):
        """The nonsense of one process does not blind the others."""
        result, (good, bad) = self.several({}, {'SIM_BAD_REPORT': self.BAD})
        f = npu_file(result)
        self.assertFalse(f['withdrawn'])
        (doubted,) = f['doubted']
        self.assertEqual((doubted['pid'], doubted['why']), (bad.pid, 'device type is not 20'))
        self.assertRegex(result.stderr, rf'not believed: what the allocator of pid {bad.pid} ')
        self.assertEqual(result.summary['without_row']['withdrawn probes'], 0)
        report = C.compare([r for r in result.rows if r['pid'] == good.pid], self.records(good), result.summary, T.Rules())
        self.assertGreater(report.matched, 1000)
        bad_rows = [r for r in result.rows if r['pid'] == bad.pid]
        records = self.records(bad)
        reported = sorted((r for r in records if r['fn'].startswith(('pta_', 'ws_'))), key=lambda r: r['t0'])
        # all of its calls but those of its allocator; these until the first nonsense, and all others counted
        report += C.compare([r for r in bad_rows if not r['type'].startswith('PTA')], records, result.summary, T.Rules(),
                            keep=lambda e: not e.type.startswith('PTA'))
        report += C.compare([r for r in bad_rows if r['type'].startswith('PTA')], records, result.summary, T.Rules(),
                            keep=lambda e: e.type.startswith('PTA'),
                            window=(result.summary['attached_boot_ns'], reported[self.BAD - 4]['t1']))
        if report:
            self.fail(self.show(report, result))
        self.assertEqual(result.summary['without_row']['processes that tell nonsense'], len(reported) - self.BAD + 1)

    def test_most_of_several(self):
        result, _ = self.several({'SIM_BAD_REPORT': 4 * self.BAD}, {'SIM_BAD_REPORT': self.BAD}, {'SIM_BAD_REPORT': self.BAD})
        self.assertTrue(npu_file(result)['withdrawn'])
        self.assertIn('own functions', npu_file(result)['instead'])
