# SPDX-License-Identifier: Apache-2.0
"""What sim-ops says that it called, and the rows of a dump, in one form."""
import re

DTYPES = {'torch.float16': 2, 'torch.float32': 4, 'torch.float64': 8, 'torch.int64': 8}


def said(text):
    """Lines of sim-ops, as rows() has them."""
    return [x for x in text.splitlines() if x.split()[0] in ('START', 'END', 'READ', 'WRITE')]


def rows(of_dump):
    out = []
    for r in of_dump:
        if r['type'] in ('ATEN_START', 'ATEN_END'):
            out.append(r['type'][5:] + r['name'].replace('torch._ops.', ' '))
        elif r['event'] == 'ACCESS':
            shape = re.fullmatch(r'torch\.Size\((\[.*\])\)', r['attr']['shape'])[1]
            out.append(f"{r['type']} {r['device']} {r['ptr']} {r['attr']['size']} {shape}")
            assert int(r['attr']['size']) % DTYPES[r['attr']['dtype']] == 0, r
    return out
