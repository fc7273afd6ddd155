# SPDX-License-Identifier: Apache-2.0
# two threads take turns (lock-step), 10 allocations each, then the other thread frees them
import threading, warnings; warnings.filterwarnings('ignore')
import torch, torch_npu, acct
torch.npu.init(); A=acct.Acct(); turn=threading.Condition(); n=[0]; L={}
def w(i):
    torch.npu.set_device(0)
    for k in range(10):
        with turn:
            turn.wait_for(lambda: n[0]%2==i); L[i,k]=torch.empty(1000*(k+1)+i,dtype=torch.uint8,device='npu'); A.op('M',L[i,k].data_ptr(),1000*(k+1)+i); n[0]+=1; turn.notify_all()
    for k in range(10):
        with turn:
            turn.wait_for(lambda: n[0]%2==i); x=L.pop((1-i,k)); a=x.data_ptr(); del x; A.op('F',a,0); n[0]+=1; turn.notify_all()
t=[threading.Thread(target=w,args=(i,)) for i in range(2)]; [x.start() for x in t]; [x.join() for x in t]; A.done()
