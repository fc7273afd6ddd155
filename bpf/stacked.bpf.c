// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* All programs, with call stacks: for --call-stack, where bpf_loop works (5.17). */
#define MT_WITH_STACKS
#include "merged.bpf.c"
