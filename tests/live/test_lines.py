# SPDX-License-Identifier: Apache-2.0
"""--lines: source lines and inlined calls against addr2line; --debuginfod: debug files from a server of this test."""
import http.server
import os
import re
import signal
import subprocess
import threading
import time
import unittest

import harness
from harness import LiveTest, built, memtap
from test_callstack import library

LINE = re.compile(r'^(?P<module>[^(]+)\((?P<name>.*?)(?:\+0x(?P<off>[0-9a-f]+))?\) \[0x(?P<at>[0-9a-f]+)\]'
                  r'(?: at (?P<file>\S+):(?P<line>\d+))?(?P<inlined> \(inlined\))?$')


def without_types(name):
    """A function without what only one of the tools writes: its arguments."""
    return re.sub(r'\(.*', '', name.replace('(anonymous namespace)', ''))


class Server:
    """A debuginfod of one file."""

    def __init__(self, test, build_id, path, hang=False):
        self.asked = []
        release = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(handler):
                self.asked.append(handler.path)
                if hang:
                    release.wait(60)
                    return
                if handler.path != f'/buildid/{build_id}/debuginfo':
                    handler.send_error(404)
                    return
                with open(path, 'rb') as f:
                    data = f.read()
                handler.send_response(200)
                handler.send_header('Content-Length', str(len(data)))
                handler.end_headers()
                handler.wfile.write(data)

            def log_message(handler, *args):
                pass

        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        test.addCleanup(server.server_close)
        test.addCleanup(server.shutdown)
        test.addCleanup(release.set)
        self.url = f'http://127.0.0.1:{server.server_port}'


class Lines(LiveTest):
    def run_program(self, program, *options, env=None):
        t = self.start('cxx', [program, library('libascend_hal.so'), self.path(self.number('notes'))],
                       env={'LD_LIBRARY_PATH': built('tests', 'live')})
        t.until('up')
        with open(f'/proc/{t.pid}/maps') as f:
            bias = int(f.readline().split('-')[0], 16)
        rec = self.record('-p', t.pid, '--call-stack=c', *options, env=env)
        t.line()
        t.until('done')
        result = rec.stop()
        rows = [r for r in result.rows if r['type'] == 'HAL' and r['event'] == 'MALLOC']
        self.assertGreaterEqual(len(rows), 5 * 8)
        return result, rows, bias

    def frames(self, rows, program):
        """For each return address of the program its lines, as in all cells."""
        out = {}
        for r in rows:
            cell = {}
            for text in r['call_c'].splitlines():
                m = LINE.match(text)
                self.assertTrue(m, text)
                if m['module'] == program:
                    cell.setdefault(int(m['at'], 16), []).append(m)
            for at, list_ in cell.items():
                key = [m.group(0) for m in list_]
                self.assertEqual(out.setdefault(at, (key, list_))[0], key)
        return {at: list_ for at, (_, list_) in out.items()}

    def truth(self, program, addresses):
        """[(function, file, line)] of each, innermost first."""
        out = []
        for a in addresses:
            done = subprocess.run(['addr2line', '-i', '-f', '-C', '-e', program, hex(a)], capture_output=True, text=True,
                                  check=True).stdout.splitlines()
            places = [re.sub(r' \(discriminator.*', '', p) for p in done[1::2]]
            out.append([(without_types(f), os.path.basename(p)) for f, p in zip(done[::2], places)])
        return out

    def compare(self, rows, bias, program, symbols):
        seen = self.frames(rows, program)
        mine = {at: v for at, v in seen.items() if v[-1]['name'] != '_start'}
        truth = self.truth(symbols, [at - bias - 1 for at in mine])
        self.assertGreater(len(mine), 6)
        self.assertGreater(sum(len(t) > 1 for t in truth), 3)
        named = 0
        for (at, got), want in zip(mine.items(), truth):
            places = [f'{os.path.basename(m["file"] or "??")}:{m["line"]}' for m in got]
            self.assertEqual(places, [p for _, p in want], rows[0]['call_c'])
            # Of lambdas and templates the tools write other names.
            own = [i for i, (f, _) in enumerate(want) if re.fullmatch('main|outer|plain|(inner::)?twice|.*::take', f)]
            self.assertEqual([without_types(got[i]['name']).split('::')[-1] for i in own],
                             [want[i][0].split('::')[-1] for i in own])
            named += len(own)
            self.assertEqual([bool(m['inlined']) for m in got], [True] * (len(got) - 1) + [False])
        self.assertGreater(named, 10)

    def test_lines(self):
        program = built('tests', 'live', 'stacks-lines')
        result, rows, bias = self.run_program(program, '--lines')
        self.compare(rows, bias, program, program)
        self.assertGreater(result.summary['stacks']['source_frames'], 5)
        self.assertIn('source lines: of', result.stderr)
        # As without the option in all else.
        _, plain, _ = self.run_program(program)
        self.assertFalse([r for r in plain if ' at ' in r['call_c'] or '(inlined)' in r['call_c']])
        for a, b in zip(rows, plain):
            frames = [m for m in map(LINE.match, a['call_c'].splitlines()) if not m['inlined']]
            self.assertEqual([(m['module'], m['name'], m['off']) for m in frames],
                             [(m['module'], m['name'], m['off']) for m in map(LINE.match, b['call_c'].splitlines())])

    def stripped(self):
        """The program without names, its debug file, and their build-id."""
        program = built('tests', 'live', 'stacks-lines')
        subprocess.run(['objcopy', '--only-keep-debug', program, self.path('debug')], check=True)
        subprocess.run(['objcopy', '--strip-all', program, self.path('program')], check=True)
        said = subprocess.run(['readelf', '-n', program], capture_output=True, text=True, check=True).stdout
        return self.path('program'), self.path('debug'), re.search(r'Build ID: (\w+)', said).group(1)

    def env(self, url):
        return {'DEBUGINFOD_URLS': url, 'DEBUGINFOD_CACHE_PATH': self.path('cache'), 'DEBUGINFOD_TIMEOUT': '90',
                'XDG_CACHE_HOME': self.path('xdg')}

    def need_client(self, result):
        if 'libdebuginfod.so.1 is not installed' in result.stderr:
            self.skipTest('libdebuginfod.so.1 is not installed')

    def test_debuginfod(self):
        program, debug, build_id = self.stripped()
        server = Server(self, build_id, debug)
        # Without the option nobody is asked, whatever the environment says.
        result, rows, bias = self.run_program(program, '--lines', env=self.env(server.url))
        self.assertEqual(server.asked, [])
        self.assertNotIn('plain(', ''.join(r['call_c'] for r in rows))
        result, rows, bias = self.run_program(program, '--lines', '--debuginfod', 30, env=self.env(server.url))
        self.need_client(result)
        self.assertIn(f'/buildid/{build_id}/debuginfo', server.asked)
        self.compare(rows, bias, program, built('tests', 'live', 'stacks-lines'))
        self.assertRegex(result.stderr, r'debuginfod: 1 of \d+ debug files')
        self.assertTrue(result.stderr.index('debug files') < result.stderr.index('all probes attached'))

    def test_debuginfod_hangs(self):
        """A server that never answers holds the beginning up for as long as it was given, and no longer."""
        program, _, build_id = self.stripped()
        server = Server(self, build_id, None, hang=True)
        result, rows, _ = self.run_program(program, '--debuginfod', 2, env=self.env(server.url))
        self.need_client(result)
        self.assertIn('no debug file within 2 s', result.stderr)
        took = float(re.search(r'all probes attached: .* in (\d+) ms', result.stderr).group(1))
        self.assertTrue(1900 < took < 20000, took)
        self.assertTrue(all(r['call_c'] for r in rows))

    def test_debuginfod_interrupted(self):
        program, _, build_id = self.stripped()
        server = Server(self, build_id, None, hang=True)
        t = self.start('cxx', [program, library('libascend_hal.so'), self.path('notes')],
                       env={'LD_LIBRARY_PATH': built('tests', 'live')})
        t.until('up')
        rec = subprocess.Popen([memtap(), 'record', '-p', str(t.pid), '-o', self.path('out'), '--call-stack=c',
                                '--debuginfod', '60'], env={**os.environ, **self.env(server.url)}, text=True,
                               stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.addCleanup(rec.kill)
        end = time.monotonic() + harness.LIMIT
        while not server.asked and rec.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        if not server.asked:
            self.skipTest('libdebuginfod.so.1 is not installed') if 'libdebuginfod' in rec.stderr.read() else self.fail()
        at = time.monotonic()
        rec.send_signal(signal.SIGINT)
        said = rec.communicate(timeout=harness.LIMIT)[1]
        self.assertLess(time.monotonic() - at, 20, said)
        self.assertEqual(rec.returncode, 0, said)

    def test_options(self):
        for argv, text, env in ((('--lines',), 'add --call-stack=c', {}),
                                (('--debuginfod', '5', '--call-stack=python'), 'add --call-stack=c', {}),
                                (('--debuginfod', '5', '--call-stack=c'), 'DEBUGINFOD_URLS is not set',
                                 {'DEBUGINFOD_URLS': ''}),
                                (('--debuginfod', '0', '--call-stack=c'), 'seconds from 1 to 3600', {}),
                                (('--debuginfod', 'x', '--call-stack=c'), 'seconds from 1 to 3600', {})):
            done = self.run_memtap('record', '-p', os.getpid(), *argv, env=env)
            self.assertEqual(done.returncode, 2, (argv, done.stderr))
            self.assertIn(text, done.stderr)
        said = self.run_memtap('record', '--help').stdout
        self.assertIn('--lines', said)
        self.assertIn('--debuginfod SECONDS', said)


if __name__ == '__main__':
    unittest.main()
