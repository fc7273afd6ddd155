# SPDX-License-Identifier: Apache-2.0
"""Root directories with the simulated stack in them, and jobs that run there."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import truth as T
from basic import BasicTest
from harness import memtap, sim

HERE = os.path.dirname(os.path.abspath(__file__))
CANN, DRIVER, TORCH = '/usr/local/Ascend/8.0/lib64', '/usr/lib64/driver', '/opt/torch-2.7'
LIBRARY_PATH = '/usr/local/Ascend/latest/lib64:/opt/torch/lib'


def needs_of(*files):
    """The shared libraries and the dynamic linker of some files, by the names they are looked for."""
    found = set()
    for f in files:
        out = subprocess.run(['ldd', f], capture_output=True, text=True).stdout
        for line in out.splitlines():
            m = re.search(r'(?:=> )?(/\S+) \(0x', line)
            if m and not m.group(1).startswith(sim()):
                found.add(m.group(1))
    return found


class RootTest(BasicTest):
    def put(self, source, root, name):
        os.makedirs(os.path.dirname(root + name), exist_ok=True)
        shutil.copy2(os.path.realpath(source), root + name)

    def rootfs(self, name='root', tool=False):
        """
        A root directory as an image of a job has it. All that leads to a library is absolute:
        /usr/local/Ascend/latest, the driver's library in CANN's folder, /opt/torch.
        """
        root = self.path(name)
        libs = []
        for d, to in (('cann/lib64', CANN), ('torch/lib', TORCH + '/lib'), ('torch_npu_c/lib', TORCH + '/lib'),
                      ('mindspore/lib', TORCH + '/lib')):
            for f in os.listdir(sim(d)):
                if '.so' in f and os.path.isfile(sim(d, f)) and not f.endswith('.symbols'):
                    libs.append(sim(d, f))
                    self.put(sim(d, f), root, f'{DRIVER if f == "libascend_hal.so" else to}/{f}')
        os.symlink('/usr/local/Ascend/8.0', root + '/usr/local/Ascend/latest')
        os.symlink(DRIVER + '/libascend_hal.so', root + CANN + '/libascend_hal.so')
        os.symlink(TORCH, root + '/opt/torch')
        self.put(sim('sim-train'), root, '/usr/bin/sim-train')
        programs = [sim('sim-train'), *libs]
        if tool:
            self.put(memtap(), root, '/usr/bin/memtap')
            programs.append(memtap())
        for f in needs_of(*programs):
            self.put(f, root, f)
        for d in ('/proc', '/sys', '/tmp', '/etc'):
            os.makedirs(root + d, exist_ok=True)
        return root

    def decoy(self, root):
        """
        The driver's library by a path that also leads to a file on this side: what is
        probed must be the one inside.
        """
        outside = tempfile.mkdtemp(prefix='memtap-decoy-')
        self.cleanups.append(lambda: shutil.rmtree(outside))
        path = outside + '/libascend_hal.so'
        shutil.copy2(sim('cann/lib64/libascend_hal.so'), path)
        os.makedirs(root + outside)
        os.rename(root + DRIVER + '/libascend_hal.so', root + path)
        os.unlink(root + CANN + '/libascend_hal.so')
        os.symlink(path, root + CANN + '/libascend_hal.so')

    def need(self, *unshare):
        """Skips where namespaces of this kind cannot be made."""
        done = subprocess.run(['unshare', *unshare, 'true'], capture_output=True, text=True)
        if done.returncode:
            self.skipTest(f'unshare {" ".join(unshare)}: {done.stderr.strip()}')

    def contained(self, root, *args, unshare=(), enter=(), shared=True, env=None, prefix=(), python=None, **kw):
        """
        sim-train in a root directory, in namespaces of its own. The folder of the test is
        the same path in there: bound (shared), or a folder of that name.
        """
        if unshare:
            self.need(*unshare)
        name = self.path(f'job{self.count + 1}.truth')
        full = {'SIM_TRAIN_STARTED': 1, 'LD_LIBRARY_PATH': LIBRARY_PATH, 'SIM_TRUTH': name, **(env or {})}
        full = {k: v for k, v in full.items() if v is not None}
        namespaces = ['unshare', *unshare] if unshare else []
        if shared:
            enter = [*enter, '--bind', self.dir]
        else:
            os.makedirs(root + self.dir, exist_ok=True)
        shutil.copy2(os.path.join(HERE, 'enter.py'), self.path('enter.py'))
        try:
            job = self.job(*args, exe='/usr/bin/sim-train', env=full, **kw,
                           prefix=[*prefix, *namespaces, python or sys.executable, self.path('enter.py'), *enter, root])
        except AssertionError as e:
            if 'enter: ' in str(e) and '(77)' in str(e):
                self.skipTest(str(e).strip().splitlines()[-1])
            raise
        if not shared:
            job.truth_base = root + name
        job.pid_here = self.pid_here(job)
        job.ids = {}
        return job

    @staticmethod
    def below(pid):
        """A process and its descendants."""
        with open(f'/proc/{pid}/task/{pid}/children') as f:
            return [pid] + [q for c in f.read().split() for q in RootTest.below(int(c))]

    def pid_here(self, job):
        """The PID that this side has for the job, which told its own."""
        for pid in self.below(job.pid):
            with open(f'/proc/{pid}/status') as f:
                text = f.read()
            if re.search(r'Name:\tsim-train', text):
                self.assertEqual(self.number_in(text), job.pid_of_job)
                return pid
        raise AssertionError('no sim-train runs')

    @staticmethod
    def number_in(status):
        """The innermost number of a thread."""
        return int(re.search(r'NSpid:.*\s(\d+)\n', status).group(1))

    def look(self, job):
        """Remembers the numbers of the threads that run now."""
        for tid in os.listdir(f'/proc/{job.pid_here}/task'):
            try:
                with open(f'/proc/{job.pid_here}/task/{tid}/status') as f:
                    job.ids[self.number_in(f.read())] = int(tid)
            except (FileNotFoundError, ProcessLookupError):
                pass

    def translate(self, job):
        """The truth of a job that has ended tells its own PIDs: make them those of this side."""
        records = T.read(job.truth_base)
        for r in records:
            self.assertEqual(r['pid'], job.pid_of_job)
            r['pid'], r['tid'] = job.pid_here, job.ids[r['tid']]
        self.known = getattr(self, 'known', {})
        self.known[job.truth_base] = records

    def files(self, result, base):
        return [f['path'] for f in result.summary['files_probed']
                if os.path.basename(f['path']) == base and f['attached']]
