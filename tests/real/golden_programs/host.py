# SPDX-License-Identifier: Apache-2.0
# host capture only inside the mstx range with the fixed message; pinned tensor and malloc inside
import ctypes, warnings; warnings.filterwarnings('ignore')
import torch, torch_npu, mstx
torch.npu.init(); L=ctypes.CDLL('libc.so.6'); L.malloc.restype=ctypes.c_void_p; L.free.argtypes=[ctypes.c_void_p]
r=mstx.range_start('report host memory info start',None)
a=L.malloc(12345); p=torch.empty(1<<20,dtype=torch.uint8,pin_memory=True); x=torch.empty(1000,device='npu'); q=torch.empty(100000); del q; L.free(a)
mstx.range_end(r); del x,p
