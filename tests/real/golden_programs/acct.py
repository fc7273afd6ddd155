# SPDX-License-Identifier: Apache-2.0
# torch_npu's own account of a run: memory_stats before/after and the allocator trace, written to $ACCT (JSON)
import json, os, time
import torch, torch_npu
KEYS=['allocation.all.current','allocation.all.allocated','allocation.all.freed','allocated_bytes.all.current','allocated_bytes.all.peak','allocated_bytes.all.allocated','allocated_bytes.all.freed','reserved_bytes.all.current','reserved_bytes.all.peak','reserved_bytes.all.allocated','reserved_bytes.all.freed','active_bytes.all.current','requested_bytes.all.current','segment.all.current','segment.all.allocated','segment.all.freed','num_alloc_retries','num_ooms']
def st():
    s=torch.npu.memory_stats(); return {k:s.get(k) for k in KEYS}
class Acct:
    def __init__(self):
        self.before=st(); torch.npu.memory._record_memory_history(enabled='all',context=None,stacks='python'); self.ops=[]
    def op(self,*a): self.ops.append([*a]+[torch.npu.memory_stats().get('allocated_bytes.all.current',0),torch.npu.memory_stats().get('reserved_bytes.all.current',0)])
    def done(self,extra=None):
        after=st(); s=torch.npu.memory._snapshot(); tr=[[{k:e[k] for k in ('action','addr','size','stream') if k in e} for e in d] for d in s['device_traces']]
        json.dump({'torch':torch.__version__,'torch_npu':torch_npu.__version__,'before':self.before,'after':after,'ops':self.ops,'device_traces':tr,'extra':extra},open(os.environ.get('ACCT','acct.json'),'w'),indent=0)
        time.sleep(float(os.environ.get('PAUSE','0')))
