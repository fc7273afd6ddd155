# SPDX-License-Identifier: Apache-2.0
# tiny MLP + Adam, STEPS steps, one tensor kept per step from step 2; marks by the module named in MARK (mstx or torch_npu)
import os, warnings; warnings.filterwarnings('ignore')
import torch, torch_npu, acct
torch.manual_seed(1); torch.npu.init(); M=os.environ.get('MARK','mstx'); N=int(os.environ.get('STEPS','3'))
if M=='mstx':
    import mstx; begin=lambda: mstx.range_start('step start',None); end=mstx.range_end
else: begin=lambda: torch_npu.npu.mstx.range_start('step start'); end=torch_npu.npu.mstx.range_end
A=acct.Acct()
m=torch.nn.Sequential(torch.nn.Linear(64,128),torch.nn.ReLU(),torch.nn.Linear(128,8)).npu(); o=torch.optim.Adam(m.parameters(),lr=1e-3); lf=torch.nn.MSELoss(); X=torch.randn(32,64); Y=torch.randn(32,8); kept=[]
for s in range(1,N+1):
    i=begin(); o.zero_grad(); l=lf(m(X.npu()),Y.npu()); l.backward(); o.step()
    if s>=2: kept.append(torch.empty(300000+s,dtype=torch.uint8,device='npu'))
    A.op('step',s,int(i)); end(i)
del l; torch.npu.synchronize()
A.done({'kept':[[t.data_ptr(),t.numel()] for t in kept],'params':[[n,p.data_ptr(),p.numel()*4] for n,p in m.named_parameters()],'grads':[[n,p.grad.data_ptr()] for n,p in m.named_parameters()],'state':[[k,v.data_ptr()] for p in m.parameters() for k,v in o.state[p].items() if v.is_npu]}); print('end',torch.npu.memory_allocated(),torch.npu.memory_reserved())
