# SPDX-License-Identifier: Apache-2.0
"""What `memtap probes` says of mechanism and returns is what `record` then does."""
import json

from basic import BasicTest
from harness import built, sim

HAL = ('cann', 'lib64', 'libascend_hal.so')
CASES = (  # switched off, mechanism, how the return of a C function is seen
    ('session', 'uprobe_multi', 'uretprobe'),
    ('session,multi', 'perf uprobes with cookies', 'uretprobe'),
    ('session,multi,cookie', 'perf uprobes, one program a site', 'uretprobe'),
    ('session,multi,cookie,perf', None, 'uretprobe'),
)


class Probes(BasicTest):
    def probes(self, *args, env=None, prefix=()):
        done = self.run_memtap('probes', '--json', *args, env=env, prefix=prefix)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_mechanism(self):
        has = json.loads(self.run_memtap('check', '--json').stdout)
        for off, mechanism, by in CASES:
            lacks = {'uprobe_multi': 'uprobe_multi links', 'perf uprobes with cookies': 'attach cookies'}
            if has.get(lacks.get(mechanism), 'yes') != 'yes':
                continue
            with self.subTest(off=off):
                env = {'MEMTAP_DISABLE': off}
                [file] = self.probes(sim(*HAL), env=env)
                self.assertEqual(file['mechanism'], mechanism)
                self.assertEqual({p['return_by'] for p in file['probes']}, {by})
                text = self.run_memtap('probes', sim(*HAL), env=env).stdout
                self.assertIn(f'Mechanism here: {mechanism or "not known"}', text)
        [file] = self.probes(sim(*HAL))
        session = has['uprobe sessions'] == 'yes'
        self.assertEqual(file['mechanism'] == 'uprobe_multi with sessions', session)
        self.assertEqual({p['return_by'] for p in file['probes']}, {'session' if session else 'uretprobe'})

    def test_as_recorded(self):
        """The mechanism and the number of probes of a recording are those that were foretold."""
        for off in ('emulation', 'multi'):
            with self.subTest(off=off):
                env = {'MEMTAP_DISABLE': off}
                job = self.job('--steps', 3, start=False)
                files = self.probes('-p', job.pid, env=env)
                rec = self.record('-p', job.pid, env=env)
                job.go()
                self.assertEqual(job.finish(), 0, job.stderr())
                result = rec.ended()
                self.assertEqual({f['mechanism'] for f in files}, {result.summary['mechanism']})
                found = {f['path']: sum(p['state'] == 'found' for p in f['probes']) for f in files}
                # files of other jobs on this machine are probed too
                got = {f['path']: f['attached'] for f in result.summary['files_probed']}
                self.assertEqual(found, {path: got.get(path) for path in found})
                self.assertGreater(sum(found.values()), 50)

    def test_host(self):
        """Allocators, of a process and as a file: what record probes in ranges."""
        job = self.job('--steps', 3, start=False)
        [libc] = [f for f in self.probes('--host', '-p', job.pid) if f['path'].split('/')[-1].startswith('libc.so')]
        found = {p['symbol']: p['state'] for p in libc['probes']}
        for name in 'malloc', 'calloc', 'realloc', 'posix_memalign', 'free':
            self.assertEqual(found[name], 'found')
        self.assertFalse([f for f in self.probes('-p', job.pid) if '/libc.so' in f['path']])
        job.go()
        job.finish()
        [own] = self.probes('--host', built('tests', 'live', 'host-own.so'))
        self.assertEqual({p['symbol'] for p in own['probes'] if p['state'] == 'found'} & {'malloc', '_Znwm', '_ZdlPv'},
                         {'malloc', '_Znwm', '_ZdlPv'})
        done = self.run_memtap('probes', built('tests', 'live', 'host-own.so'))
        self.assertEqual(done.returncode, 1)
        self.assertIn('no library of the catalogue has this name', done.stderr)

    def test_returns(self):
        """Functions that exceptions leave have probes at their `ret`, others none of a return."""
        [file] = self.probes(sim('torch_npu_none', 'lib', 'libtorch_npu.so'))
        by = {p['symbol'].split('::')[-1]: p['return_by'] for p in file['probes'] if p['state'] == 'found'}
        self.assertEqual(by, {'malloc': 'ret sites', 'free': '-'})

    def test_without_rights(self):
        """Who may try nothing is told so, and still sees what would be probed."""
        [file] = self.probes(sim(*HAL), prefix=['setpriv', '--reuid=65534', '--regid=65534',
                                                '--clear-groups', '--inh-caps=-all'])
        self.assertIsNone(file['mechanism'])
        self.assertEqual({p['state'] for p in file['probes']}, {'found'})
