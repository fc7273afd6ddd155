# SPDX-License-Identifier: Apache-2.0
# the tool's own Python package: describer as context manager, decorator, on a tensor, on an address; start/stop/config
import os, warnings; warnings.filterwarnings('ignore')
import torch, torch_npu, acct
P=os.environ.get('TOOLPKG','msleaks'); import importlib
T=importlib.import_module(P); D=importlib.import_module(P+'.describe').describer
torch.npu.init(); A=acct.Acct()
with D(owner='outer'):
    a=torch.empty(1000,device='npu')
    with D(owner='inner'): b=torch.empty(2000,device='npu')
@D(owner='deco')
def f(): return torch.empty(3000,device='npu')
c=f(); d=torch.empty(4000,device='npu'); D(d,owner='obj'); D(d,owner='obj2'); D(b.data_ptr(),owner='addr'); e=a+1; a.add_(1)
with D(owner='l1'):
    with D(owner='l2'):
        with D(owner='l3'):
            with D(owner='l4'): g=torch.empty(5000,device='npu')
torch.npu.synchronize(); A.done(); del a,b,c,d,e,g
