# SPDX-License-Identifier: Apache-2.0
import warnings; warnings.filterwarnings('ignore')
import os, importlib, torch, torch_npu
T=importlib.import_module(os.environ.get('TOOLPKG','msleaks')); torch.npu.init()
def leaf(x): return x+1
def mid(x): return leaf(x)
m=torch.nn.Linear(4,4); T.tracer.start(); mid(torch.ones(3)); m(torch.ones(2,4)); len([1]); T.tracer.stop()
