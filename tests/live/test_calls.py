# SPDX-License-Identifier: Apache-2.0
"""Kinds of calls: failures and retries, nesting, exceptions, host memory, devices, MindSpore, Python."""
import collections
import os
import re
import subprocess
import sys

from basic import BasicTest
from harness import sim

HERE = os.path.dirname(os.path.abspath(__file__))


class Calls(BasicTest):
    def test_acl_kinds(self):
        result, job = self.traced('--no-torch', '--threads', 2, '--devices', 2)
        report = self.agree(result, job)
        for kind in ('MALLOC HAL', 'FREE HAL', 'MALLOC HOST_PINNED', 'FREE HOST_PINNED'):
            self.assertTrue(report.kinds[kind], report.kinds)
        hal = result.of('MALLOC')
        self.assertEqual({r['attr'].get('alloc_type') for r in hal if r['type'] == 'HAL'},
                         {'alloc', 'create'})
        self.assertIn('host', {r['device'] for r in hal})

    def test_retry_is_one_allocation(self):
        result, job = self.traced('--no-torch', env={'SIM_FAIL_HUGE': 3})
        self.agree(result, job)
        self.assertGreater(result.summary['failed_allocations'], 0)
        refused = [r for r in self.records(job) if r['fn'] == 'halMemAlloc' and r['ret']]
        self.assertEqual(result.summary['failed_allocations'], len(refused))

    def test_out_of_memory(self):
        result, job = self.traced('--no-torch', '--oom', '--steps', 40, rate=0, env={'SIM_FAIL_HUGE': 5})
        self.agree(result, job)
        self.assertTrue(result.of('OOM_DETAIL'))
        self.assertEqual(result.summary['oom'], len(result.of('OOM_DETAIL')))

    def test_out_of_memory_in_torch(self):
        result, job = self.traced('--oom', '--steps', 40, rate=0)
        self.agree(result, job)
        self.assertTrue(result.of('OOM_DETAIL'))

    def test_failing_calls(self):
        result, job = self.traced('--no-torch', env={'SIM_FAIL_FREE': 7, 'SIM_FAIL_CREATE': 4})
        self.agree(result, job)
        failed = [r for r in self.records(job)
                  if r['fn'] in ('halMemFree', 'halMemCreate', 'halMemRelease') and r['ret']]
        self.assertGreater(len(failed), 5)

    def test_nested(self):
        result, job = self.traced('--no-torch', '--threads', 2, env={'SIM_NESTED': 3})
        self.agree(result, job)

    def test_slow_calls(self):
        """A call longer than the sort window is written late, and said to be."""
        result, job = self.traced('--no-torch', seconds=5, rate=200, env={'SIM_SLOW_US': '60:1500000'})
        self.agree(result, job, least=50)
        late = [r for r in result.rows if r['attr'].get('late') == 'true']
        self.assertEqual(len(late), result.summary['late'])
        slow_frees = [r for r in self.records(job) if r['fn'] == 'halMemFree' and not r['ret']
                      and r['t1'] - r['t0'] > 1_400_000_000]
        self.assertGreaterEqual(len(late), len(slow_frees))

    def test_hccl_and_atb(self):
        result, job = self.traced('--hccl', '--atb', '--threads', 2, '--devices', 2, '--leak')
        self.agree(result, job)

    def test_profiling_on(self):
        """The framework's own profiler makes the report function do more; the rows are the same."""
        result, job = self.traced('--profiling')
        self.agree(result, job)

    def counts(self, job):
        """What a job says of itself, without its times."""
        return [re.sub(r'in [\d.]+ s \(\d+/s\)', '', re.sub(r'pid \d+', '', l))
                for l in job.stdout().splitlines() if l.startswith('rank ')]

    def test_exceptions(self):
        for layout in ('a', 'c', 'c10'):
            with self.subTest(layout=layout):
                args = ('--steps', 30, '--exceptions', '--oom', '--layout', layout, '--layers', 3)
                plain = self.job(*args)
                plain.wait()
                job = self.job(*args, start=False)
                rec = self.record('-p', job.pid)
                job.go()
                status = job.finish()
                result = rec.ended()
                self.agree(result, job, layout=layout)
                self.assertEqual(status, plain.p.returncode)
                self.assertEqual(self.counts(job), self.counts(plain))
                self.assertRegex(self.counts(job)[0], r'[1-9]\d* exceptions')

    def test_visible_devices(self):
        result, job = self.traced('--no-torch', '--threads', 3, '--devices', 3,
                                  env={'ASCEND_RT_VISIBLE_DEVICES': '5,2,7'})
        self.agree(result, job, visible=[5, 2, 7])
        pairs = {(r['device'], r['attr']['physical_device']) for r in result.of('MALLOC')
                 if 'physical_device' in r['attr']}
        # sim-train also calls the driver with ids that are not visible: these have no logical one
        self.assertEqual({p for p in pairs if p[0] != 'N/A'}, {('0', '5'), ('1', '2'), ('2', '7')})

    def test_visible_devices_late(self):
        result, job = self.cut_out('--no-torch', '--threads', 2, '--devices', 2,
                                   env={'ASCEND_RT_VISIBLE_DEVICES': '6,3'})
        self.agree(result, job, visible=[6, 3], from_start=False)

    def test_one_visible_device(self):
        """One visible device: a thread attached late has no other."""
        result, job = self.cut_out(env={'ASCEND_RT_VISIBLE_DEVICES': '4'})
        self.agree(result, job, visible=[4], from_start=False)
        marks = result.of('MSTX', 'KERNEL_LAUNCH')
        self.assertEqual({r['device'] for r in marks}, {'0'})

    def test_mindspore(self):
        result, job = self.traced('--mindspore', '--no-torch')
        report = self.agree(result, job)
        self.assertTrue(report.kinds['MALLOC MINDSPORE'] and report.kinds['FREE MINDSPORE'])

    def test_mindspore_older_pool(self):
        result, job = self.traced('--mindspore', '--no-torch', env={'MS_ALLOC_CONF': 'older_pool:true'})
        self.agree(result, job)

    def test_mindspore_of_the_middle(self):
        # A process of MindSpore has one device.
        result, job = self.cut_out('--mindspore', '--no-torch', '--threads', 2)
        self.agree(result, job, from_start=False)

    def python(self, *args, **kw):
        script = os.path.join(HERE, '..', 'sim', 'sim_train.py')
        # PYTHONPATH: where modules to come are looked for ahead
        return self.job('--root', sim(), *args, prefix=[sys.executable], exe=script,
                        env={'PYTHONPATH': sim('python')}, **kw)

    def test_python(self):
        job = self.python('--steps', 40, '--threads', 2, '--devices', 2, start=False)
        rec = self.record('-p', job.pid)
        job.go()
        job.finish()
        result = rec.ended()
        self.agree(result, job)
        names = collections.Counter(r['name'] for r in result.rows if r['type'] == 'Mark')
        self.assertTrue(any('python step' in n for n in names), names)

    def test_devices_one_after_the_other(self):
        """The runtime allocates for a device before it is the thread's, which has another one."""
        job = self.python('--steps', 20, '--devices', 3, '--threads', 2, '--tour', start=False)
        rec = self.record('-p', job.pid)
        job.go()
        job.finish()
        result = rec.ended()
        self.agree(result, job)
        pairs = {(r['device'], r['attr']['physical_device']) for r in result.of('MALLOC')
                 if 'physical_device' in r['attr']}
        self.assertEqual(pairs, {(str(d), str(d)) for d in range(3)})

    def test_python_middle(self):
        job = self.python('--steps', 10 ** 9, '--layers', 1)
        self.pause(0.3)
        result = self.record('-p', job.pid, '-d', 0.4).ended()
        self.stop(job)
        self.agree(result, job, from_start=False)

    def test_other_user(self):
        """A job of another user."""
        os.chmod(self.dir, 0o777)
        nobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']
        if subprocess.run([*nobody, 'test', '-x', sim('sim-train')]).returncode:
            self.skipTest(f'another user cannot reach {sim("sim-train")}: a folder above it is closed')
        job = self.job('--seconds', 1, '--rate', 2000, start=False, prefix=nobody)
        rec = self.record('-p', job.pid)
        job.go()
        job.finish()
        self.agree(rec.ended(), job)
