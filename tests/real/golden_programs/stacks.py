# SPDX-License-Identifier: Apache-2.0
import warnings; warnings.filterwarnings('ignore')
import torch, torch_npu, acct
torch.npu.init(); A=acct.Acct()
def leaf(n): return torch.empty(n,device='npu')
def mid(n): return leaf(n)
class M(torch.nn.Module):
    def forward(self,x): return torch.relu(x+1)
x=mid(1000); m=M(); y=m(x); p=torch.empty(1<<18,pin_memory=True); del x; torch.npu.synchronize(); A.done(); del y,p; torch.npu.empty_cache()
