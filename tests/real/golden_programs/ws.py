# SPDX-License-Identifier: Apache-2.0
# workspace of operators on two streams (TASK_QUEUE_ENABLE=2)
import warnings; warnings.filterwarnings('ignore')
import torch, torch_npu, acct
torch.npu.init(); A=acct.Acct(); x=torch.ones(1000,device='npu'); y=x+x; torch.npu.synchronize(); s=torch.npu.Stream()
with torch.npu.stream(s): z=x+x
torch.npu.synchronize(); v=x+y; torch.npu.synchronize(); torch.npu.empty_cache(); w=x+z; torch.npu.synchronize(); A.done(); del x,y,z,v,w
