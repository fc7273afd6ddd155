# SPDX-License-Identifier: Apache-2.0
# which marks reach the tool: torch_npu.npu.mstx, the stand-alone module mstx, the C library through ctypes
import warnings; warnings.filterwarnings('ignore')
import ctypes, torch, torch_npu
torch.npu.init()
t=torch_npu.npu.mstx; print('torch_npu mark',t.mark('torch mark'), flush=True); i=t.range_start('step start'); print('torch_npu range id',i); x=torch.empty(100,device='npu'); t.range_end(i)
import mstx
print('mstx mark',mstx.mark('py mark',None)); j=mstx.range_start('step start',None); print('mstx range id',j); del x; mstx.range_end(j)
j=mstx.range_start('with stream',torch.npu.current_stream().npu_stream); mstx.range_end(j); mstx.range_end(99)
L=ctypes.CDLL('libms_tools_ext.so'); L.mstxRangeStartA.restype=ctypes.c_uint64; L.mstxRangeStartA.argtypes=[ctypes.c_char_p,ctypes.c_void_p]; L.mstxRangeEnd.argtypes=[ctypes.c_uint64]; k=L.mstxRangeStartA(b'c range',None); print('c range id',k); L.mstxRangeEnd(k); L.mstxMarkA(b'c mark',None)
