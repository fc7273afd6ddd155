# SPDX-License-Identifier: Apache-2.0
# contents come from the host, ops of the simulated CANN do not compute
import warnings; warnings.filterwarnings('ignore')
import torch, torch_npu
torch.npu.init(); x=torch.arange(16,dtype=torch.float32).npu(); z=torch.zeros(16).npu(); y=x+z; y.copy_(torch.full((16,),2.5)); w=y*z; v=torch.relu(w); torch.npu.synchronize(); u=v+1; torch.npu.synchronize()
