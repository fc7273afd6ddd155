# SPDX-License-Identifier: Apache-2.0
# record_stream with events that complete late (SIM_EVENT_DELAY_US): when does the FREE row come, at free_requested or at free_completed
import time, warnings; warnings.filterwarnings('ignore')
import torch, torch_npu, acct
torch.npu.init(); s=torch.npu.Stream(); A=acct.Acct()
x=torch.empty(1000,dtype=torch.uint8,device='npu'); A.op('M',x.data_ptr(),1000); x.record_stream(s); a=x.data_ptr(); t0=time.time_ns(); del x; t1=time.time_ns(); A.op('F_requested',a,1000)
y=torch.empty(2000,dtype=torch.uint8,device='npu'); A.op('M',y.data_ptr(),2000); time.sleep(0.5); z=torch.empty(3000,dtype=torch.uint8,device='npu'); t2=time.time_ns(); A.op('M_after_delay',z.data_ptr(),3000)
A.done({'del_between':[t0,t1],'after_next_malloc':t2}); del y,z
