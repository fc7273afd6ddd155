# SPDX-License-Identifier: Apache-2.0
"""What host-target says of its calls, as rows of a dump would."""


def due(text, vendor=False):
    """(event, address, size) as the target itself tells them; of the vendor malloc and free alone."""
    out, live = [], {}
    for line in text.splitlines():
        word = line.split()
        if len(word) != 4:
            continue
        fn, old, new, size = word[0], *map(int, word[1:])
        if old and not (vendor and fn == 'realloc'):
            out.append(('FREE', old, live.pop(old, 0 if vendor else None)))
        if new and not (vendor and fn != 'malloc'):
            live[new] = size
            out.append(('MALLOC', new, size))
    return out
