# SPDX-License-Identifier: Apache-2.0
# one process, two devices
import warnings; warnings.filterwarnings('ignore')
import torch, torch_npu, acct, mstx
torch.npu.init(); A=acct.Acct(); a=torch.empty(1000,dtype=torch.uint8,device='npu:0'); b=torch.empty(2000,dtype=torch.uint8,device='npu:1'); c=torch.empty(3000,dtype=torch.uint8,device='npu:1'); mstx.mark('dev0 current',None)
torch.npu.set_device(1); mstx.mark('dev1 current',None); d=torch.empty(4000,dtype=torch.uint8,device='npu'); e=torch.empty(5000,dtype=torch.uint8,device='npu:0'); f=d+1; torch.npu.synchronize(); A.done(); del a,b,c,d,e,f
