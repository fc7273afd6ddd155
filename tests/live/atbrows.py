# SPDX-License-Identifier: Apache-2.0
"""What sim-atb says that it ran, and the rows of a dump, in one form."""


def said(text):
    """By thread, in its order."""
    out = {}
    for line in text.splitlines():
        tid, rest = line.split(' ', 1)
        out.setdefault(int(tid), []).append(rest)
    return out


def row_text(r):
    """As the program writes it; None: a row of something else."""
    a = r['attr']
    if r['type'] in ('ATB_START', 'ATB_END'):
        return f"{r['type']} {r['name']} {a['path']} {a['workspace_ptr']} {a['workspace_size']}"
    if r['type'] in ('KERNEL_START', 'KERNEL_END'):
        return f"{r['type']} {r['name']} {a['path']}"
    if r['event'] == 'ACCESS':
        return f"{r['type']} {r['name']} {r['ptr']} {a['size']} {a['dtype']} {a['format']} {a['shape']}"
    if r['event'] in ('MALLOC', 'FREE') and r['type'] == 'ATB':
        return f"{r['event']} {r['ptr']} {a['size']}"
    return None


def rows(of_dump):
    out = {}
    for r in of_dump:
        text = row_text(r)
        if text:
            out.setdefault(r['tid'], []).append(text)
    return out


def only(lines, *words):
    return {t: [x for x in v if x.split()[0] in words] for t, v in lines.items()}
