# SPDX-License-Identifier: Apache-2.0
import warnings; warnings.filterwarnings('ignore')
import os, importlib, torch, torch_npu
T=importlib.import_module('msmemscope'); torch.npu.init(); x=torch.empty(1000,device='npu')
T.take_snapshot(); T.take_snapshot(0,'named'); y=torch.empty(5<<20,device='npu')
with T.TakeSnapshot('ctx') if hasattr(T,'TakeSnapshot') else open('/dev/null'): z=y+1
for i in range(2): T.step(); w=torch.empty(100+i,device='npu')
with T.RecordFunction('my function') if hasattr(T,'RecordFunction') else open('/dev/null'): v=x+1
torch.npu.synchronize(); print(sorted(n for n in dir(T) if not n.startswith('__')))
