# SPDX-License-Identifier: Apache-2.0
"""The intended differences stand in the man pages; options stand in help, man page and completion."""
import os
import re

from harness import HERE, TOP

COMMANDS = ('ctl', 'leaks', 'gap', 'inefficient', 'watch', 'decompose', 'compare', 'cut', 'msleaks')


def text_of(page):
    """A man page as running text."""
    with open(os.path.join(TOP, 'man', 'memtap-%s.8' % page)) as f:
        text = f.read()
    text = re.sub(r'^\.\\".*\n', '', text, flags=re.M)
    text = re.sub(r'^\.(B|I|BR|RB|RI|IR|BI|IB) (.*)$', lambda m: m.group(2).replace(' ', '')
                  if len(m.group(1)) > 1 else m.group(2), text, flags=re.M)
    text = re.sub(r'\\f[BRIP]|"', '', text).replace('\\-', '-')
    return ' '.join(text.split())


def test_manual_has_the_differences(golden, memtap):
    with open(os.path.join(HERE, 'differences.txt')) as f:
        entries = [line.strip() for line in f if line.strip() and not line.startswith('#')]
    assert len(entries) >= 5
    for entry in entries:
        word, page, text = [x.strip() for x in entry.split('|')]
        assert page in COMMANDS, entry
        limits = text_of(page).partition('.SH LIMITATIONS')[2]
        assert ' '.join(text.split()) in limits, '%s: not under LIMITATIONS of memtap-%s(8): %s' % (word, page, text)


def test_manual_has_the_options(golden, memtap):
    with open(os.path.join(TOP, 'scripts/completion/memtap.bash')) as f:
        completion = f.read()
    for command in COMMANDS:
        run = memtap(command, '--help')
        assert run.status == 0 and run.out.startswith('Usage: memtap ' + command), run.err
        page = text_of(command)
        (line,) = [x for x in re.findall(r'^\t%s\)((?:[^;]|\n)*);;' % command, completion, flags=re.M)]
        for option in re.findall(r'^ {2,6}(?:-\w, )?(--[a-z-]+)', run.out, flags=re.M):
            assert option in page, '%s: %s is not in the man page' % (command, option)
            assert option in line, '%s: %s is not in the completion' % (command, option)
        assert command in memtap('--help').out
        with open(os.path.join(TOP, 'man/memtap.8')) as f:
            assert '.BR memtap-%s (8)' % command in f.read(), command
