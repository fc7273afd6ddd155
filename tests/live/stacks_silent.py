# SPDX-License-Identifier: Apache-2.0
"""stacks_silent.py LIBRARY HAL NUMBER NOTES WHAT: allocates with some of Python's data in memory that nobody serves.

Who reads that memory from outside waits for ever (userfaultfd); running the program does not read it. WHAT:
name or lines, of the function that allocates: what a probe reads of a code object, and what it does not;
threads, the end of the interpreter's list of them.
"""
import ctypes
import mmap
import os
import struct
import sys

LIBRARY, HAL, NUMBER, NOTES, WHAT = sys.argv[1:]
lib = ctypes.CDLL(LIBRARY)
libc = ctypes.CDLL(None, use_errno=True)
notes = os.open(NOTES, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
if lib.stackcall_open(notes, HAL.encode(), None):
    sys.exit('no simulated driver')

UFFDIO_API, UFFDIO_REGISTER = 0xc018aa3f, 0xc020aa00
SYS_userfaultfd = {'x86_64': 323, 'aarch64': 282}[os.uname().machine]


def silent(size):
    """Memory whose pages are never there, for whoever reads them."""
    fd = libc.syscall(SYS_userfaultfd, os.O_CLOEXEC)
    if fd < 0:
        sys.exit(f'userfaultfd: {os.strerror(ctypes.get_errno())}')
    area = mmap.mmap(-1, size)
    at = ctypes.addressof(ctypes.c_char.from_buffer(area))
    for code, words in ((UFFDIO_API, (0xaa, 0, 0)), (UFFDIO_REGISTER, (at, size, 1, 0))):
        arg = ctypes.create_string_buffer(struct.pack(f'{len(words)}Q', *words))
        if libc.ioctl(fd, ctypes.c_ulong(code), arg):
            sys.exit(f'userfaultfd: {os.strerror(ctypes.get_errno())}')
    return area, at


def nameless():
    lib.stackcall(4096)


def hide(code, member, at):
    """That member of the code object is there from now on."""
    for i in range(40):
        word = ctypes.c_uint64.from_address(id(code) + 8 * i)
        if word.value == id(member):
            word.value = at
            return
    sys.exit('it is not in a code object')


area, at = silent(1 << 16)
code = nameless.__code__
if WHAT == 'name':
    hide(code, code.co_name, at + 64)
elif WHAT == 'lines':
    hide(code, code.co_linetable if sys.version_info >= (3, 10) else code.co_lnotab, at + 64)
else:
    # PyThreadState of 3.9 and later: prev (or next), then next.
    ctypes.pythonapi.PyThreadState_Get.restype = ctypes.c_void_p
    state = ctypes.pythonapi.PyThreadState_Get()
    ctypes.c_uint64.from_address(state + 8).value = at + 4096
print('up', flush=True)
sys.stdin.readline()
for _ in range(int(NUMBER)):
    nameless()
print('done', flush=True)
sys.stdin.readline()
os._exit(0)
