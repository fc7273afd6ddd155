# SPDX-License-Identifier: Apache-2.0
"""Memory of the host: malloc and its family in ranges of that name, exactly or not, and all the time."""
import collections
import os
import re
import shutil
import signal
import subprocess
import time

import hostrows
import readers
from basic import BasicTest
from harness import built, memtap, sim

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = ('tests', 'live', 'host-target')
LIBS = ('cann/lib64', 'torch/lib', 'torch_npu_c/lib')
INSIDE, OUTSIDE = 1000000, 2000000
STOPPED = re.compile(r'the process was stopped for (\d+) us on average, at most (\d+) us')


def status(pid, key):
    with open(f'/proc/{pid}/status') as f:
        return next(x.split(None, 1)[1].strip() for x in f if x.startswith(key + ':'))


def of_host(rows):
    return [r for r in rows if r['type'] == 'HOST']


class Host(BasicTest):
    def env(self, **kw):
        return {'LD_LIBRARY_PATH': ':'.join(sim(x) for x in LIBS), **kw}

    def target(self, *args, env=None, **kw):
        p = self.start('target', [built(*TARGET), *args], env=self.env(**(env or {})), **kw)
        p.until('READY ')
        return p

    def recorded(self, *args, rec=(), env=None):
        """A target from its line to its end: (result, target)."""
        p = self.target(*args, env=env)
        recorder = self.record('-p', p.pid, *rec)
        p.line()
        p.until('DONE')
        self.assertEqual(p.wait(), 0, p.stderr())
        result = recorder.ended()
        self.assertTrue(result.summary['accounting']['exact'], result.stderr)
        self.assertEqual(result.summary['accounting']['lost'], 0)
        return result, p

    def sizes(self, result):
        """How many MALLOC rows there are of each size."""
        return collections.Counter(r['size'] for r in of_host(result.rows) if r['event'] == 'MALLOC')

    # ---- what is a row ----

    def check_each(self, **kw):
        result, p = self.recorded('each', rec=('--exact-ranges',), **kw)
        rows = sorted(of_host(result.rows), key=lambda r: r['id'])
        self.assertEqual([(r['event'], r['ptr'], r['size']) for r in rows], hostrows.due(p.stdout()), result.stderr)
        self.assertEqual({r['device'] for r in rows}, {'host'})
        self.assertEqual([r['size'] for r in rows if r['attr'].get('preattach')], [None])
        self.assertEqual(result.summary['failed_allocations'], 3)
        return result

    def test_each_function(self):
        """Each function of the family, with what it takes and gives; free(NULL) and what is nested are none."""
        result = self.check_each()
        self.assertGreaterEqual(result.summary['accounting']['nested'], 2)
        pools = [p for p in result.summary['pools'] if p['type'] == 'HOST']
        self.assertEqual([p['device'] for p in pools], [-2])
        self.assertGreaterEqual(pools[0]['peak'], 300000)
        counters = [e for e in result.traces()['cpu'] if e['name'] == 'memory']
        self.assertEqual(counters[-1]['args']['size'], 1119)

    def test_each_function_of_another_allocator(self):
        """One that takes the place of the C library's, and one that only hands on to it: counted once."""
        for lib in 'host-own.so', 'host-wrap.so':
            self.check_each(env={'LD_PRELOAD': built('tests', 'live', lib)})

    def test_operators_that_cannot_be_probed(self):
        """Not all returns of new can be: it and delete have no rows, which is said, and --strict knows."""
        p = self.target('each', env={'LD_PRELOAD': built('tests', 'live', 'host-tail.so')})
        recorder = self.record('-p', p.pid, '--exact-ranges', '--strict')
        p.line()
        self.assertEqual(p.wait(), 0, p.stderr())
        result = recorder.ended()
        self.assertEqual(result.rc, 3, result.stderr)
        self.assertIn('host-tail.so: its operators new and delete are not probed', result.stderr)
        new = [line.split()[2] for line in p.stdout().splitlines() if line.startswith('new ')]
        self.assertEqual(len(new), 1)
        rows = sorted(of_host(result.rows), key=lambda r: r['id'])
        self.assertEqual([(r['event'], r['ptr'], r['size']) for r in rows], [d for d in hostrows.due(p.stdout()) if d[1] != int(new[0])])

    def test_musl(self):
        """Another C library; its file is also the dynamic linker."""
        if not shutil.which('musl-gcc'):
            self.skipTest('no musl-gcc')
        lib, exe = self.path('libms_tools_ext.so'), self.path('target')
        with open(self.path('mstx.c'), 'w') as f:
            f.write('unsigned long n;\nunsigned long mstxRangeStartA(const char *t, void *s)'
                    '{ (void)t, (void)s; return __atomic_add_fetch(&n, 1, 5); }\n'
                    'void mstxRangeEnd(unsigned long id) { (void)id; __asm__ volatile("" ::: "memory"); }\n')
        subprocess.run(['musl-gcc', '-shared', '-fPIC', '-O1', '-o', lib, self.path('mstx.c')], check=True)
        subprocess.run(['musl-gcc', '-O2', '-fno-builtin', '-D_GNU_SOURCE', '-w', '-o', exe, os.path.join(HERE, 'host_target.c')],
                       check=True)
        p = self.start('musl', [exe, 'count', 2, 300, 4], env={'LD_LIBRARY_PATH': self.dir})
        p.until('READY ')
        recorder = self.record('-p', p.pid, '--exact-ranges')
        p.line()
        self.assertEqual(p.wait(), 0, p.stderr())
        result = recorder.ended()
        sizes = {k: v for k, v in self.sizes(result).items() if INSIDE <= k < OUTSIDE}
        self.assertEqual(sizes, {INSIDE + t * 100000 + n: 2 for t in range(4) for n in range(300)}, result.stderr)

    def test_each_function_by_other_means(self):
        for off in 'session', 'uprobe_multi,session', 'uprobe_multi,session,cookie,sleepable':
            p = self.target('each')
            recorder = self.record('-p', p.pid, '--exact-ranges', env={'MEMTAP_DISABLE': off})
            p.line()
            self.assertEqual(p.wait(), 0, p.stderr())
            rows = sorted(of_host(recorder.ended().rows), key=lambda r: r['id'])
            self.assertEqual([(r['event'], r['ptr'], r['size']) for r in rows], hostrows.due(p.stdout()), off)

    def test_stacks(self):
        result, p = self.recorded('each', rec=('--exact-ranges', '--call-stack=c'))
        rows = of_host(result.rows)
        self.assertEqual(len(rows), len(hostrows.due(p.stdout())))
        with_stack = [r for r in rows if 'host-target(' in r['call_c'] and 'libc.so.6(' in r['call_c'].splitlines()[0]]
        self.assertEqual(len(with_stack), len(rows), rows[:2])

    def test_ranges(self):
        """Inside of one another, of two threads, ended by the last; another text is no such range."""
        result, _ = self.recorded('nested', rec=('--exact-ranges',))
        due = {INSIDE + n: 1 for n in (1, 2, 3, 4)}
        self.assertEqual({k: v for k, v in self.sizes(result).items() if k >= INSIDE}, due, result.stderr)
        self.assertEqual(result.summary['host_memory']['ranges'], 1)
        # Of a library that gives no ids the innermost of the thread ends.
        self.assertEqual(len([r for r in result.rows if r['type'] == 'Range_start']), 5)

    # ---- how much of it ----

    def test_returns_behind_its_range(self):
        """A call that is open when its range closes hides none of the next range."""
        result, _ = self.recorded('across', rec=('--exact-ranges',), env={'LD_PRELOAD': built('tests', 'live', 'host-own.so')})
        sizes = self.sizes(result)
        self.assertEqual([sizes[INSIDE + i] for i in range(5)], [1] * 5, result.stderr)

    def test_opened_together(self):
        """Of two threads that open a range at once one opens the gate, and both are in it."""
        result, _ = self.recorded('together', 40, 0, 0, rec=('--exact-ranges',))
        sizes = self.sizes(result)
        missing = [n for n in range(400) if sizes[INSIDE + n] != 1]
        lost = [r for r in result.rows if r['type'] == 'LOST']
        # What ran on for a moment while the process was being stopped is told.
        self.assertEqual([n for n in missing if n % 10], [], result.stderr)
        self.assertLessEqual(len(missing), len(lost), result.stderr)
        self.assertEqual(result.summary['host_memory']['not_stopped'], 0, result.stderr)

    def test_each_range_is_told(self):
        """Ranges that close before anybody has heard of them, also those unheard of at the end."""
        result, _ = self.recorded('short', 200, 0, 0)
        s = result.summary['host_memory']
        self.assertEqual((s['ranges'], s['missed']), (200, 200), result.stderr)
        lost = [r for r in result.rows if r['type'] == 'LOST']
        self.assertEqual(len(lost), 200)
        self.assertEqual(s['notes_lost'], 0)

    def test_behind_many_files(self):
        """An allocator of no known name in a process that has mapped thousands of files."""
        lib, folder = self.path('libother.so'), self.path('files')
        shutil.copy(built('tests', 'live', 'host-own.so'), lib)
        os.mkdir(folder)
        result, _ = self.recorded('late', lib, folder, 6000, rec=('--exact-ranges',))
        sizes = self.sizes(result)
        self.assertEqual(sizes[INSIDE + 59], 1, result.stderr)

    def test_exact(self):
        """From the first call behind the mark to the last one before the end, in all threads."""
        # Of two threads ranges follow each other before the probes of the last one have gone.
        for threads, ranges in (1, 3), (2, 12), (4, 3):
            calls = 400
            result, _ = self.recorded('count', ranges, calls, threads, rec=('--exact-ranges',))
            host = result.summary['host_memory']
            self.assertEqual((host['ranges'], host['stopped'], host['missed'], host['not_stopped']), (ranges, ranges, 0, 0))
            sizes = self.sizes(result)
            due = {INSIDE + t * 100000 + n: ranges for t in range(threads) for n in range(calls)}
            self.assertEqual({k: v for k, v in sizes.items() if INSIDE <= k < OUTSIDE}, due, result.stderr)
            # Other threads may be on their way when the mark is made, nobody is behind its end.
            self.assertNotIn(OUTSIDE, sizes)
            frees = [r for r in of_host(result.rows) if r['event'] == 'FREE']
            self.assertLessEqual(len([r for r in frees if r['attr'].get('preattach')]), 3 * ranges * threads)
            self.assertLessEqual(abs(len(frees) - sum(sizes.values())), 3 * ranges * threads)
            self.assertRegex(result.stderr, rf'HOST: {ranges} ranges are recorded from their beginning; ' + STOPPED.pattern)

    def test_not_exact(self):
        """The beginning is missing, which is said; the process is never stopped."""
        calls = 30000
        result, _ = self.recorded('count', 3, calls, 1)
        host = result.summary['host_memory']
        self.assertEqual((host['ranges'], host['missed'], host['stopped']), (3, 3, 0))
        self.assertGreater(host['missed_ns'], 0)
        self.assertLess(host['missed_most_ns'], 2 * 10**9)
        sizes = {k: v for k, v in self.sizes(result).items() if INSIDE <= k < OUTSIDE}
        # What is there are the last calls of each range.
        self.assertTrue(sizes, 'nothing was recorded')
        self.assertEqual(max(sizes), INSIDE + calls - 1)
        self.assertRegex(result.stderr, r'HOST: the first \d+ us on average \(at most \d+ us\) of 3 ranges are not recorded')
        lost = [r for r in result.rows if r['attr'].get('reason') == 'late allocator']
        self.assertEqual([r['attr']['count'] for r in lost], ['N/A'] * 3)

    def test_strict(self):
        """A beginning that is not recorded makes a recording incomplete; --exact-ranges records it."""
        for options, rc in ((), 3), (('--exact-ranges',), 0), (('--host-memory=none',), 0):
            p = self.target('count', 1, 50, 1)
            recorder = self.record('-p', p.pid, '--strict', *options)
            p.line()
            self.assertEqual(p.wait(), 0)
            self.assertEqual(recorder.ended().rc, rc, options)

    def test_probes_go(self):
        """Before the first range and behind the last its calls cost nothing: no breakpoint is there."""
        p = self.target('stay')
        with open(f'/proc/{p.pid}/maps') as f:
            libc = next(line.split() for line in f if 'libc.so.6' in line and 'r-xp' in line)
        start, end = (int(x, 16) for x in libc[0].split('-'))

        def text():
            with open(f'/proc/{p.pid}/mem', 'rb') as f:
                f.seek(start)
                return f.read(end - start)
        before = text()
        self.assertEqual(len(before), end - start)
        recorder = self.record('-p', p.pid, '--exact-ranges')
        self.assertEqual(text(), before)
        p.line()
        p.until('OPENED')
        self.assertNotEqual(text(), before)
        p.line()
        p.until('CLOSED')
        until = time.monotonic() + 10
        while text() != before and time.monotonic() < until:
            time.sleep(0.01)
        self.assertEqual(text() == before, True, 'breakpoints are left')
        p.line()
        result = recorder.ended()
        self.assertEqual(p.wait(), 0)
        self.assertEqual(self.sizes(result)[INSIDE], 1)

    # ---- stopping ----

    def test_killed_while_it_is_stopped(self):
        """memtap dies with its target stopped: the watchdog lets it go on, whichever of them is stuck."""
        for sig in signal.SIGKILL, signal.SIGSTOP:
            p = self.target('hold')
            recorder = self.record('-p', p.pid, '--exact-ranges')
            # It cannot answer any more.
            os.kill(recorder.pid, signal.SIGSTOP)
            p.line()
            end = time.monotonic() + 10
            while status(p.pid, 'State')[0] != 'T' and time.monotonic() < end:
                time.sleep(0.002)
            self.assertEqual(status(p.pid, 'State')[0], 'T', 'it was never stopped')
            began = time.monotonic()
            if sig == signal.SIGKILL:
                recorder.signal(signal.SIGKILL)
            p.until('OPENED', limit=10)
            took = time.monotonic() - began
            self.assertLess(took, 5)
            if sig == signal.SIGSTOP:
                self.assertGreater(took, 0.5)
                recorder.signal(signal.SIGCONT)
                recorder.until('continued by the watchdog', 'stderr')
            p.line()
            self.assertEqual(p.wait(), 0)
            if sig == signal.SIGSTOP:
                result = recorder.ended()
                self.assertEqual(result.summary['host_memory']['continued_by_watchdog'], 1)
                self.assertEqual(result.summary['host_memory']['missed'], 1)
            else:
                recorder.wait()

    def test_no_watchdog_is_left(self):
        def watchdogs():
            found = set()
            for d in os.listdir('/proc'):
                try:
                    with open(f'/proc/{d}/comm') as f:
                        comm = f.read()
                    if comm.startswith('memtap-watchdog'[:15]) and d.isdigit():
                        found.add((int(d), int(status(d, 'PPid'))))
                except OSError:
                    pass
            return found
        p = self.target('hold')
        recorder = self.record('-p', p.pid, '--exact-ranges')
        own = {w for w, parent in watchdogs() if parent == recorder.pid}
        self.assertEqual(len(own), 1)
        recorder.stop()
        self.assertFalse(own & {w for w, _ in watchdogs()})
        p.line('\n\n')
        self.assertEqual(p.wait(), 0)

    def test_watchdog_dies(self):
        """Without it nothing is stopped any more, and that is said."""
        p = self.target('hold')
        recorder = self.record('-p', p.pid, '--exact-ranges')
        for d in os.listdir('/proc'):
            try:
                if d.isdigit() and int(status(d, 'PPid')) == recorder.pid:
                    os.kill(int(d), signal.SIGKILL)
            except OSError:
                pass
        recorder.until('the watchdog has ended', 'stderr')
        p.line()
        p.until('OPENED')
        p.line()
        result = recorder.ended()
        self.assertEqual((result.summary['host_memory']['stopped'], result.summary['host_memory']['missed']), (0, 1))

    def test_refused(self):
        """Whoever is stopped already, or traced, is not ours to continue."""
        p = self.target('hold')
        p.signal(signal.SIGSTOP)
        while status(p.pid, 'State')[0] != 'T':
            time.sleep(0.002)
        done = self.run_memtap('record', '-o', self.path('x'), '-p', p.pid, '--exact-ranges')
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f'pid {p.pid} is stopped', done.stderr)
        self.assertEqual(status(p.pid, 'State')[0], 'T')
        self.assertFalse(os.path.exists(self.path('x', 'dump')))
        p.signal(signal.SIGCONT)
        tracer = self.traced_by(p.pid)
        done = self.run_memtap('record', '-o', self.path('y'), '-p', p.pid, '--exact-ranges')
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f'pid {p.pid} is traced by pid {tracer.pid}', done.stderr)
        tracer.line()
        tracer.wait()
        # Without the option both are recorded.
        recorder = self.record('-p', p.pid)
        p.line()
        p.until('OPENED')
        p.line()
        self.assertEqual(recorder.ended().rc, 0)

    def test_without_the_right_to_continue(self):
        """Root that may not signal other users' processes stops none of them, nor takes all for targets."""
        less = ['setpriv', '--bounding-set=-kill']
        done = self.run_memtap('record', '-o', self.path('x'), '-a', '-d', '1', '--exact-ranges', prefix=less)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn('needs CAP_KILL', done.stderr)
        # It becomes another user's behind the attach: seen where the range opens.
        p = self.target('user')
        recorder = self.record('-p', p.pid, '--exact-ranges', prefix=less)
        p.line()
        p.until('DONE')
        result = recorder.ended()
        self.assertIn("it has become another user's", result.stderr)
        self.assertEqual(result.summary['host_memory']['not_stopped'], 1)
        self.assertEqual(result.summary['host_memory']['stopped'], 0)

    def traced_by(self, pid):
        code = ('import ctypes,sys\nlibc=ctypes.CDLL(None,use_errno=True)\n'
                'libc.ptrace.argtypes=[ctypes.c_long]*4\n'
                f'assert not libc.ptrace(0x4206,{pid},0,0), ctypes.get_errno()\n'  # PTRACE_SEIZE
                'print("HAVE",flush=True)\nsys.stdin.readline()\n')
        tracer = self.start('tracer', ['python3', '-c', code])
        tracer.until('HAVE')
        return tracer

    def test_traced_later(self):
        """A debugger that comes later is noticed when the range opens: not stopped, and said."""
        p = self.target('hold')
        recorder = self.record('-p', p.pid, '--exact-ranges')
        tracer = self.traced_by(p.pid)
        p.line()
        p.until('OPENED')
        recorder.until('not stopped for the attach: a debugger traces it', 'stderr')
        p.line()
        result = recorder.ended()
        host = result.summary['host_memory']
        self.assertEqual((host['not_stopped'], host['stopped'], host['missed']), (1, 0, 1))
        tracer.line()
        tracer.wait()

    def test_stopped_by_another_meanwhile(self):
        """What somebody else has stopped while we had it stopped stays so, until he continues it."""
        p = self.target('hold')
        recorder = self.record('-p', p.pid, '--exact-ranges')
        os.kill(recorder.pid, signal.SIGSTOP)
        p.line()
        while status(p.pid, 'State')[0] != 'T':
            time.sleep(0.002)
        p.signal(signal.SIGSTOP)
        recorder.signal(signal.SIGCONT)
        recorder.until('stopped by somebody else while', 'stderr')
        time.sleep(1.5)  # the watchdog's second
        self.assertEqual(status(p.pid, 'State')[0], 'T')
        p.signal(signal.SIGCONT)
        p.until('OPENED')
        p.line()
        self.assertEqual(p.wait(), 0)
        self.assertEqual(recorder.ended().summary['host_memory']['left_stopped'], 1)

    # ---- all the time ----

    def test_always(self):
        """--device=cpu: also outside of ranges, from the attach on; and of a command from its first call."""
        result, _ = self.recorded('count', 1, 100, 2, rec=('--device=npu,cpu',))
        sizes = self.sizes(result)
        self.assertEqual({k: v for k, v in sizes.items() if INSIDE <= k < OUTSIDE},
                         {INSIDE + t * 100000 + n: 1 for t in (0, 1) for n in range(100)})
        self.assertEqual(sizes[OUTSIDE], 1)
        self.assertEqual(result.summary['host_memory']['mode'], 'all')
        d, js = self.path('cmd'), self.path('cmd.json')
        p = self.start('cmd', [memtap(), 'record', '-o', d, '--summary-json', js, '--host-memory=all', '--',
                               built(*TARGET), 'each'], env=self.env())
        p.line()
        self.assertEqual(p.wait(), 0, p.stderr())
        rows = of_host(readers.read_csv(readers.dump_of(d, 'csv')))
        of_range = {(e, a) for e, a, _ in hostrows.due(p.stdout())}
        self.assertLess(of_range, {(r['event'], r['ptr']) for r in rows})
        # What the dynamic linker and the C library take before main.
        self.assertGreater(len(rows), len(of_range) + 5)
        self.assertNotIn(None, [r['size'] for r in rows if r['ptr'] in {a for _, a in of_range}])

    def test_children(self):
        """A child, by fork and by exec, is recorded too when all the time is asked for."""
        code = ('import os,subprocess,sys\nsys.stdin.readline()\n'
                'subprocess.run(["/bin/true"])\n'
                'pid=os.fork()\n'
                'if not pid:\n import time\n time.sleep(0.5)\n b=[bytearray(3000000+i) for i in range(20)]\n os._exit(0)\n'
                'os.waitpid(pid,0)\n')
        p = self.start('py', ['python3', '-c', 'import ctypes;ctypes.CDLL("libms_tools_ext.so");print("READY",flush=True)\n'
                              + code], env=self.env())
        p.until('READY')
        recorder = self.record('-p', p.pid, '--host-memory=all')
        p.line()
        self.assertEqual(p.wait(), 0, p.stderr())
        result = recorder.ended()
        by_pid = collections.defaultdict(list)
        for r in of_host(result.rows):
            if r['event'] == 'MALLOC' and 3000000 <= r['size'] < 3000100:
                by_pid[r['pid']].append(r['size'])
        self.assertEqual(len(by_pid), 1, by_pid)
        (child, sizes), = by_pid.items()
        self.assertNotEqual(child, p.pid)
        # Once each: not twice for two links on one memory.
        self.assertEqual(sorted(sizes), sorted(set(sizes)))
        self.assertEqual(len(sizes), 20)
        ids = collections.Counter((r['pid'], r['event'], r['time'], r['ptr'], r['tid']) for r in of_host(result.rows))
        self.assertEqual([k for k, v in ids.items() if v > 1][:3], [])
        self.assertTrue(result.summary['accounting']['exact'])

    # ---- the vendor's command line ----

    def front(self, *options, mode=('each',)):
        d = self.path(self.number('front') + '.d')
        p = self.start('front', [memtap(), 'msleaks', '--output=' + d, *options, built(*TARGET), *mode], env=self.env())
        p.line()
        self.assertEqual(p.wait(), 0, p.stderr())
        dump = readers.dump_of(d, 'csv')
        return p, readers.read_csv(dump) if dump else []

    def test_front(self):
        """malloc and free alone, as the vendor has them; a FREE of another block has number and size 0."""
        p, rows = self.front('--exact-ranges')
        due = hostrows.due(p.stdout(), vendor=True)
        host = sorted(of_host(rows), key=lambda r: r['id'])
        # strdup gets it from malloc; memalign(16) and realloc(NULL) call it inside the C library.
        self.assertEqual([(r['event'], r['ptr'], r['size']) for r in host], due, p.stderr())
        for r in host:
            self.assertEqual(set(r['attr']), {'allocation_id', 'addr', 'size'})
            if r['event'] == 'FREE' and not r['size']:
                self.assertEqual(r['allocation_id'], 0)
        self.assertIn(('FREE', 0), {(r['event'], r['size']) for r in host})
        self.assertEqual({r['device'] for r in host}, {'host'})
        p, rows = self.front('--device=cpu')
        self.assertLess(len(due) + 5, len(of_host(rows)))
        self.assertEqual({r['device'] for r in rows} - {'N/A'}, {'host'})
        p, rows = self.front('--generation=now', '--device=npu,cpu')
        self.assertEqual(of_host(rows), [])
        p, rows = self.front('--exact-ranges', '--steps=1')
        self.assertEqual(of_host(rows), [])

    def test_contradictions(self):
        for options in (('--device=cpu',), ('--host-memory=all',), ('--host-memory=none',), ('--events=launch',)):
            done = self.run_memtap('record', '-o', self.path('z'), '-p', os.getpid(), '--exact-ranges', *options)
            self.assertEqual(done.returncode, 2, options)
            self.assertIn('--exact-ranges: no range is waited for', done.stderr)
        done = self.run_memtap('record', '-p', os.getpid(), '--host-memory=some')
        self.assertEqual(done.returncode, 2)
        self.assertIn("--host-memory: 'some' is not valid; it takes none, ranges or all", done.stderr)
        done = self.run_memtap('msleaks', '--device=cpu', '--exact-ranges', '/bin/true')
        self.assertEqual(done.returncode, 2)
