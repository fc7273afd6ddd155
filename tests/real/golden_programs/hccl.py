# SPDX-License-Identifier: Apache-2.0
# two ranks, started by this program; each allocates, all_reduce, all_gather
import os, sys, subprocess, warnings; warnings.filterwarnings('ignore')
if len(sys.argv)<2:
    e=dict(os.environ,MASTER_ADDR='127.0.0.1',MASTER_PORT='29533'); b=os.environ.get('ACCT','acct.json')
    ps=[subprocess.Popen([sys.executable,__file__,str(r),'2'],env=dict(e,ACCT=b.replace('.json',f'.rank{r}.json'))) for r in range(2)]; sys.exit(max(p.wait() for p in ps))
import torch, torch_npu, torch.distributed as dist, acct
r=int(sys.argv[1]); n=int(sys.argv[2]); torch.npu.set_device(r); torch.npu.init(); A=acct.Acct()
dist.init_process_group('hccl',rank=r,world_size=n)
x=torch.ones(1<<20,device='npu'); dist.all_reduce(x); torch.npu.synchronize(); y=[torch.empty_like(x) for _ in range(n)]; dist.all_gather(y,x); dist.barrier(); del y; torch.npu.synchronize()
A.done(); print('rank',r,torch.npu.memory_allocated(),torch.npu.memory_reserved(),flush=True); dist.destroy_process_group()
