# SPDX-License-Identifier: Apache-2.0
"""Markers of torch_npu and of the stand-alone module mstx, from several threads."""
import os
import sys
import threading

import account

A = account.Account(history=False)
mstx = getattr(A.npu, 'mstx', None)  # since 6.0.rc2, which has marks only, of an object
ranges = hasattr(mstx, 'range_start')
if mstx and not ranges:
    mstx = mstx()
NAMES = ['hello', 'a,b "q" x', 'two\nlines', 'caf\u00e9 \u4f60\u597d', '', 'x' * 300, '=1+1', "it's", '\U0001f600 smile']
lock = threading.Lock()
module = None
if os.environ.get('REAL_MSTX'):
    sys.path.append(os.environ['REAL_MSTX'])
    import mstx as module


def note(kind, text):
    A.data['marks'].append([threading.get_native_id(), kind, text])


def work():
    for n in NAMES:
        if mstx:
            # torch_npu itself refuses an empty message
            if n:
                mstx.mark(n)
                note('Mark', n)
        if ranges:
            a = mstx.range_start('outer ' + n)
            note('Range_start', 'outer ' + n)
            b = mstx.range_start('inner', A.npu.current_stream())
            note('Range_start', 'inner')
            A.torch.empty(100, device='npu')
            mstx.range_end(b)
            note('Range_end', 'inner')
            mstx.range_end(a)
            note('Range_end', 'outer ' + n)
        if module:
            module.mark(n)
            note('Mark', n)
            c = module.range_start('step start', None)
            note('Range_start', 'step start')
            A.torch.empty(100, device='npu')
            module.range_end(c)
            note('Range_end', 'step start')


A.ready()
work()
t = threading.Thread(target=work)
t.start()
t.join()
print('marks', len(A.data['marks']))
A.done()
