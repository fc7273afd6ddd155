# SPDX-License-Identifier: Apache-2.0
# --collect-mode=custom with msleaks.start()/stop()/config()
import os, warnings; warnings.filterwarnings('ignore')
import torch, torch_npu, acct, importlib
T=importlib.import_module(os.environ.get('TOOLPKG','msleaks')); import mstx
torch.npu.init(); A=acct.Acct(); a=torch.empty(1000,device='npu'); mstx.mark('before start',None)
T.start(); b=torch.empty(2000,device='npu'); c=b+1; del a
mstx.mark('before stop',None); T.stop(); del b; d=torch.empty(3000,device='npu'); T.start(); e=torch.empty(4000,device='npu'); del c,d; torch.npu.synchronize(); A.done(); T.stop(); del e
