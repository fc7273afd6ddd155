# SPDX-License-Identifier: Apache-2.0
# op sequences for the three inefficiency kinds with real ATen ops
import warnings; warnings.filterwarnings('ignore')
import torch, torch_npu, acct
torch.npu.init(); A=acct.Acct(); n=1<<16
x=torch.empty(n,device='npu'); y=torch.ones(n,device='npu'); y.add_(1); del y          # x early, y normal
x.mul_(2); z=torch.ones(n,device='npu'); del x                                        # x late
w=torch.ones(n,device='npu')
for i in range(3100): z.add_(1)
w.add_(1); torch.npu.synchronize(); A.done(); del w,z
