# SPDX-License-Identifier: Apache-2.0
# fork after allocations; the child leaves by sys.exit, and a second one by os._exit
import os, sys, warnings; warnings.filterwarnings('ignore')
import torch, torch_npu
torch.npu.init(); a=torch.empty(1000,device='npu'); b=torch.empty(2000,device='npu'); del b
p=os.fork()
if p==0: sys.exit(0)
os.waitpid(p,0); p=os.fork()
if p==0: os._exit(0)
os.waitpid(p,0); c=torch.empty(3000,device='npu'); del a,c
