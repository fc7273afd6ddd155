// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * All programs as one object, which the loader tries first: libbpf reads the
 * kernel's type information once an object, and that is most of its time. When
 * it does not load, the objects of the layers are loaded one by one.
 */
#include "lifecycle.bpf.c"
#include "hal.bpf.c"
#include "acl.bpf.c"
#include "runtime.bpf.c"
#include "pta.bpf.c"
#include "mstx.bpf.c"
#include "pymark.bpf.c"
#include "mindspore.bpf.c"
#include "aten.bpf.c"
#include "atb.bpf.c"
#include "host.bpf.c"
