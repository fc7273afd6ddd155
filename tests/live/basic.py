# SPDX-License-Identifier: Apache-2.0
"""The comparison that most live tests make: files of a run against the truth of its jobs."""
import compare as C
import truth as T
from harness import LiveTest, LONG


class BasicTest(LiveTest):
    def agree(self, result, jobs, layout='c', visible=None, from_start=True, lossless=True, rc=0,
              least=100, skip=(), block_order=False, edge=None, shared=False, **kw):
        """Fails unless the files say exactly what happened. The report of the comparison."""
        self.assertEqual(result.rc, rc, result.stderr)
        self.assertIsNotNone(result.summary, result.stderr)
        records = self.records(jobs)
        if not rc:
            self.assertEqual(result.summary['unseen_libraries'], [], result.stderr)
        rules = T.Rules(layout=layout, visible=visible, from_start=from_start, shared=shared)
        report = C.compare(result.rows, records, result.summary, rules, skip=skip, **kw)
        bad = list(report)
        bad += C.invariants(result.rows, block_order=block_order)
        bad += C.accounting(result.rows, result.summary, lossless)
        if bad:
            self.fail(self.show(bad, result))
        self.assertGreaterEqual(report.matched, least, 'too little happened to tell anything')
        return report

    def records(self, jobs):
        """Truth of jobs that have ended; read once."""
        records = []
        self.known = getattr(self, 'known', {})
        for job in jobs if isinstance(jobs, (list, tuple)) else [jobs]:
            base = job if isinstance(job, str) else job.truth_base
            if base not in self.known:
                self.known[base] = T.read(base)
            records += self.known[base]
        records.sort(key=lambda r: (r['t0'], -r['t1']))
        return records

    @staticmethod
    def show(bad, result):
        return f'{len(bad)} problems:\n' + '\n'.join(b[:400] for b in bad[:10]) + '\n' + result.stderr[-1200:]

    def traced(self, *args, seconds=1.2, rec=(), env=None, rate=2500, **kw):
        """A job seen from its first call to its end: (result, job)."""
        job = self.job('--seconds', seconds, '--rate', rate, *args, start=False, env=env)
        recorder = self.record('-p', job.pid, *rec, **kw)
        job.go()
        self.assertEqual(job.finish(), 0, job.stderr())
        return recorder.ended(), job

    def cut_out(self, *args, before=0.4, seconds=0.8, after=0.3, rec=(), env=None, rate=2500, **kw):
        """A job that runs before, during and after the recording."""
        job = self.job('--seconds', LONG, '--rate', rate, *args, env=env)
        self.pause(before)
        recorder = self.record('-p', job.pid, '-d', seconds, *rec, **kw)
        result = recorder.ended()
        self.pause(after)
        self.stop(job)
        return result, job

    @staticmethod
    def pause(seconds):
        import time
        time.sleep(seconds)

    def stop(self, job):
        """SIGTERM makes sim-train end after its step, with its truth written."""
        import os
        import signal
        for pid in job.ranks() or [job.pid]:
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
        self.assertEqual(job.finish(), 0, job.stderr())
