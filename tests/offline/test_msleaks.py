# SPDX-License-Identifier: Apache-2.0
"""memtap msleaks: the vendor's messages of wrong usage (msleaks.md 1.1), --compare, what is refused."""
import os
import re
import shutil
import subprocess
import tempfile

from harness import Run

# Option, values that are refused, the vendor's message behind "[msleaks] ERROR: ".
REFUSED = (
    ('level', ('2', '', 'x', '0,2', '0,,1'), 'invalid data trace level input.'),
    ('events', ('x', '', 'traceback', 'alloc,y'), 'invalid event trace type input.'),
    ('steps', ('0', '01', '1,2,3,4,5,6', 'a', ''), 'invalid steps input.'),
    ('call-stack', ('c:1001', 'c:x', 'd'), 'invalid call-stack depth input.'),
    ('analysis', ('leak', 'leaks,x'), 'invalid analysis type input.'),
    ('watch', ('end', '', 'a,b,c'), 'invalid watch config.'),
    ('input', ('a', 'a,b,c', ''), 'invalid paths input.'),
    ('data-format', ('json', ''), '--data-format param is invalid. DATA_FORMAT can only be set csv,db.'),
    ('device', ('npu:32', 'gpu', ''), 'invalid device.'),
    ('log-level', ('fatal', ''), '--log-level param is invalid. LOG_LEVEL can only be set info,warn,error.'),
    ('collect-mode', ('later', ''), '--collect-mode param is invalid.'),
)


def usage_of(memtap):
    return memtap('msleaks', '--help').out


def test_msleaks_messages(golden, memtap):
    """The vendor's message, the object and the remedy, its usage; status 2 where the vendor has 0."""
    usage = usage_of(memtap)
    assert usage.startswith('Usage: memtap msleaks [OPTIONS] PROG')
    for option, values, message in REFUSED:
        for value in values:
            run = memtap('msleaks', '--%s=%s' % (option, value), 'true')
            lines = run.err.split('\n', 2)
            assert run.status == 2 and not run.out, (option, value, run.status, run.out)
            assert lines[0] == '[msleaks] ERROR: ' + message, (option, value, lines[0])
            assert lines[1].startswith("memtap: error: --%s: '%s' is not valid; it takes " % (option, value)), lines[1]
            assert lines[2] == usage, (option, value)
            run = memtap('msleaks', '--generation=now', '--%s=%s' % (option, value), 'true')
            if value != 'traceback':  # the newer tool takes it
                assert run.status == 2, (option, value, run.err)
                assert '[msmemscope] Error: %s\n' % message in run.err, (option, value, run.err)


def test_msleaks_output_path(golden, memtap):
    for value, word in (('', 'empty'), ('a;b', 'invalid'), ('=x', 'invalid'), ('/'.join('a' * 40), 'invalid')):
        for option in ('--output', '--output-path'):
            run = memtap('msleaks', '%s=%s' % (option, value), 'true')
            assert run.status == 2 and run.err.startswith(
                '[msleaks] WARN: %s output path.\nPlease use correct output path!\n' % word), (value, run.err)


def test_msleaks_unknown(golden, memtap):
    for args in (('--data-trace-level=0', 'true'), ('-x', 'true'), ('--level',), ('-o',)):
        run = memtap('msleaks', *args)
        assert run.status == 2 and 'Usage: memtap msleaks' in run.err and not run.out, (args, run.err)
    run = memtap('msleaks')
    assert run.status == 2 and 'no program to trace' in run.err and 'memtap record -p' in run.err, run.err


def test_msleaks_help_and_version(golden, memtap):
    version = memtap('--version').out
    for args in (('-h',), ('--help',), ('--level=0', '-h', '--level=9')):
        run = memtap('msleaks', *args)
        assert run.status == 0 and run.out == usage_of(memtap) and not run.err, (args, run.err)
    for args in (('-v',), ('-V',), ('--version',), ('--generation=now', '-V')):
        run = memtap('msleaks', *args)
        assert run.status == 0 and run.out == version, (args, run.out)
    # The newer tool's -v is another word.
    for args in (('--generation=now', '-v'), ('-v', '--generation', 'now')):
        run = memtap('msleaks', *args)
        assert run.status == 2 and run.out != version and 'no program' in run.err, (args, run.err)


def test_msleaks_by_name(golden, memtap):
    """Also by the name of the file."""
    folder = tempfile.mkdtemp()
    try:
        for name, word in (('msleaks', '[msleaks] ERROR: '), ('msmemscope', '[msmemscope] Error: ')):
            path = os.path.join(folder, name)
            os.symlink(os.path.abspath(memtap.binary), path)
            run = Run(path, '--level=7', 'true')
            assert run.status == 2 and run.err.startswith(word + 'invalid data trace level input.\n'), run.err
            assert Run(path, '--help').out.startswith('Usage: %s [OPTIONS]' % name)
            p = subprocess.run([name, '--help'], env=dict(os.environ, PATH=folder), stdout=subprocess.PIPE, text=True)
            assert p.returncode == 0 and p.stdout.startswith('Usage: %s [OPTIONS]' % name)
    finally:
        shutil.rmtree(folder)


def test_msleaks_deprecated(golden, memtap):
    run = memtap('msleaks', '--generation=now', '--level=1', '-h')
    assert "[msmemscope] Deprecation: '--level=1' is deprecated, use '--level=kernel' instead.\n" == run.err, run.err
    for args in (('--level=1',), ('--level=kernel',), ('--generation=now', '--level=kernel')):
        assert not memtap('msleaks', *args, '-h').err, args


def test_msleaks_refuses_what_it_cannot_serve(golden, memtap):
    """By name, instead of recording something else."""
    for arg, word in (('--watch=a,b', 'device memory'),):
        for command in (('msleaks', arg, 'true'), ('record', arg, '-p', '1')):
            run = memtap(*command)
            assert run.status == 2 and arg.split('=')[0] in run.err and word in run.err, (command, run.err)
            assert not run.out, command


def test_msleaks_compare(golden, memtap):
    folder = tempfile.mkdtemp()
    both = golden('compare_seed/base.csv') + ',' + golden('compare_seed/compare.csv')
    try:
        for i, level in enumerate(('0', '1', '0,1', '1\uff0c0')):
            out = os.path.join(folder, str(i))
            run = memtap('msleaks', '--compare', '--input=' + both.replace(',', '\uff0c' if i == 1 else ','),
                         '--level=' + level, '--output=' + out)
            assert run.status == 0, run.err
            (name,) = os.listdir(out + '/compare')
            assert run.out == '[msleaks] Info: create file %s/compare/%s.\n' % (os.path.realpath(out), name), run.out
            want = golden('compare_seed/memory_compare_level_%s.csv' % ('0_1' if len(level) > 1 else level))
            with open(os.path.join(out, 'compare', name)) as f, open(want) as g:
                assert f.read() == g.read(), level
        # Its newer spellings.
        run = memtap('msleaks', '--generation=now', '--compare', '-i', both, '--level=op', '-o', folder + '/n')
        assert run.status == 0 and run.out.startswith('[msmemscope] Info: create file '), run.err
    finally:
        shutil.rmtree(folder)


def test_msleaks_compare_refuses(golden, memtap):
    base = golden('compare_seed/base.csv')
    for args in ((), ('--input=/nowhere/a.csv,' + base,)):
        run = memtap('msleaks', '--compare', *args)
        assert run.status == 2 and not run.out, (args, run.err)
        assert 'Please use compare command with correct input paths!\n' in run.err
        assert '[msleaks] ERROR: invalid paths input.\n' in run.err
        assert bool(args) == ('The file path /nowhere/a.csv do not exist.' in run.err), run.err
    run = memtap('msleaks', '--compare', '--input=' + base)
    assert run.status == 2 and run.err.startswith('[msleaks] ERROR: invalid paths input.\n'), run.err


def test_record_takes_the_vendors_options(golden, memtap):
    """Where they make sense on a process that runs: as far as a target is missing."""
    for arg in ('--steps=1,2', '--steps=1\uff0c2', '--analysis=leaks\uff0cinefficient', '--analysis=', '--analysis=none',
                '--log-level=warn', '--collect-mode=full', '--collect-mode=immediate', '--level=op,kernel',
                '--events=alloc\uff0claunch', '--device=npu:1\uff0ccpu',
                '--call-stack=c:5\uff0cpython', '--format=db', '--output-path=x', '--debug'):
        run = memtap('record', arg)
        assert run.status == 2 and 'no target' in run.err, (arg, run.err)
    for arg in ('--steps=0', '--steps=1,2,3,4,5,6', '--analysis=x', '--log-level=x', '--collect-mode=x',
                '--call-stack=c,,python', '--level=0,,1', '--events=traceback'):
        run = memtap('record', arg)
        name, value = arg.split('=')
        assert run.status == 2 and re.search(r"%s: '%s' is not valid; it takes " % (name, re.escape(value)), run.err), run.err
    for arg in ('--compare', '--input=a,b', '--input-path=a,b'):
        run = memtap('record', arg, '-p', '1')
        assert run.status == 2 and 'memtap compare BASE OTHER' in run.err, run.err


def test_msleaks_manual(golden, memtap):
    """Each option of the table stands in its man page and in the completion, those of record in theirs."""
    from harness import TOP
    from test_manual import text_of
    with open(os.path.join(TOP, 'scripts/completion/memtap.bash')) as f:
        completion = f.read()
    for command in ('msleaks', 'record'):
        page = text_of(command)
        (line,) = re.findall(r'^\t%s\)((?:[^;]|\n)*);;' % command, completion, flags=re.M)
        options = re.findall(r'^ {2,6}(?:-\w, )?(--[a-z-]+)', memtap(command, '--help').out, flags=re.M)
        assert len(options) > 20
        for option in options:
            assert re.search(re.escape(option) + r'(?![a-z-])', page), '%s %s: not in the man page' % (command, option)
            assert option in re.split(r"[\s'=]+", line), '%s %s: completion' % (command, option)
    with open(os.path.join(TOP, 'man/memtap.8')) as f:
        assert '.BR memtap-msleaks (8)' in f.read()
