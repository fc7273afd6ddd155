# SPDX-License-Identifier: Apache-2.0
# out of memory: 64 MiB device; retry after empty_cache, then error
import warnings; warnings.filterwarnings('ignore')
import torch, torch_npu, acct
torch.npu.init(); A=acct.Acct(); a=torch.empty(20<<20,dtype=torch.uint8,device='npu'); A.op('M',a.data_ptr(),20<<20); b=torch.empty(24<<20,dtype=torch.uint8,device='npu'); A.op('M',b.data_ptr(),24<<20); del b; A.op('F',0,0)
c=torch.empty(40<<20,dtype=torch.uint8,device='npu'); A.op('M_after_retry',c.data_ptr(),40<<20)
try: d=torch.empty(60<<20,dtype=torch.uint8,device='npu')
except RuntimeError as e: print('OOM',type(e).__name__,str(e)[:100].replace('\n',' '))
A.op('oom',0,0); A.done(); del a,c
