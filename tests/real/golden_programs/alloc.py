# SPDX-License-Identifier: Apache-2.0
# 40 mixed torch.empty / del on two streams, empty_cache twice; single thread
import random, warnings; warnings.filterwarnings('ignore')
import torch, torch_npu, acct
torch.npu.init(); s2=torch.npu.Stream(); A=acct.Acct(); random.seed(3); live=[]
SZ=[1,100,512,513,5000,1<<18,(1<<20)-1,1<<20,(1<<20)+1,3<<20,10<<20,12<<20,25<<20]
for i in range(40):
    if live and random.random()<0.45:
        p=live.pop(random.randrange(len(live))); a=p.data_ptr(); n=p.numel(); del p; A.op('F',a,n)
    else:
        n=random.choice(SZ); k=i%3==2
        with torch.npu.stream(s2 if k else torch.npu.default_stream()): p=torch.empty(n,dtype=torch.uint8,device='npu')
        live.append(p); A.op('M',p.data_ptr(),n)
    if i==20: torch.npu.empty_cache(); A.op('E',0,0)
x=live.pop(0); s2.wait_stream(torch.npu.current_stream()); x.record_stream(s2); a=x.data_ptr(); n=x.numel(); del x; A.op('F_record_stream',a,n)
torch.npu.synchronize(); y=torch.empty(100,dtype=torch.uint8,device='npu'); A.op('M',y.data_ptr(),100)
n=len(live); del live[0::2]; torch.npu.empty_cache(); A.op('E',0,0)
A.done({'live_at_end':[[t.data_ptr(),t.numel()] for t in live]}); print('end',torch.npu.memory_allocated(),torch.npu.memory_reserved())
