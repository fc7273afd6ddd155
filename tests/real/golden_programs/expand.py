# SPDX-License-Identifier: Apache-2.0
# run with PYTORCH_NPU_ALLOC_CONF=expandable_segments:True
import warnings; warnings.filterwarnings('ignore')
import torch, torch_npu, acct
torch.npu.init(); A=acct.Acct(); a=torch.empty(5<<20,dtype=torch.uint8,device='npu'); A.op('M',a.data_ptr(),5<<20); b=torch.empty(30<<20,dtype=torch.uint8,device='npu'); A.op('M',b.data_ptr(),30<<20); c=torch.empty(100,dtype=torch.uint8,device='npu'); A.op('M',c.data_ptr(),100)
del b; A.op('F',0,0); torch.npu.empty_cache(); A.op('E',0,0); d=torch.empty(7<<20,dtype=torch.uint8,device='npu'); A.op('M',d.data_ptr(),7<<20); A.done(); del a,c,d; torch.npu.empty_cache(); print('end',torch.npu.memory_reserved())
