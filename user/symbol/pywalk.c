// SPDX-License-Identifier: Apache-2.0
/* The walker of BPF, compiled for user space: over another process's memory. */
#include "symbol/python.h"

#include <errno.h>

#define PY_READ(mem, dst, n, addr) py_mem__read(mem, addr, dst, n)
#include "../../bpf/lib/pystack.bpf.h"

void py_walk__memory(const struct py_mem *m, const struct mt_py_offsets *o, uint64_t tp,
		     uint32_t tid, uint32_t max, struct mt_py_stack *out)
{
	py_walk(m, o, tp, tid, max, out, NULL);
}

void py_walk__state(const struct py_mem *m, const struct mt_py_offsets *o, uint64_t state,
		    uint32_t max, struct mt_py_stack *s)
{
	struct py_way w = { .mem = m, .o = o, .s = s, .max = max };

	s->n = 0;
	s->begins = 0;
	s->next = 0;
	s->thread = state;
	s->why = MT_PY_UNREADABLE;
	if (!py_top_frame(m, o, state, &s->next))
		py_frames(&w);
}

bool py_walk__is_checked(const struct py_mem *m, const struct mt_py_offsets *o, uint64_t code,
			 uint32_t check)
{
	struct mt_py_stack s;
	int by;

	/* A str that had no hash then may have one now. */
	for (by = 0; by <= (PY_NAME_BY_TEXT | PY_FILE_BY_TEXT); by++)
		if (py_check(m, o, &s, NULL, code, by) == check)
			return true;
	return false;
}

ssize_t py_threads__read(const struct py_mem *m, const struct mt_py_offsets *o,
			 struct py_thread_state *out, size_t max)
{
	uint64_t interp, t = 0;
	size_t n = 0, interps = 0;

	if (py_mem__u64(m, o->interp_head, &interp))
		return -EFAULT;
	if (!interp)
		return -EAGAIN;
	while (n < max) {
		struct py_thread_state *x = &out[n];

		if (!t) {
			if (!interp || ++interps > max)
				break;
			if (py_mem__u64(m, interp + o->threads_head, &t) ||
			    py_mem__u64(m, interp + o->interp_next, &interp))
				return -EFAULT;
			continue;
		}
		*x = (struct py_thread_state){ .addr = t };
		if (py_mem__u64(m, t + o->thread_id, &x->id) ||
		    (o->native_id && py_mem__u64(m, t + o->native_id, &x->native)) ||
		    py_mem__u64(m, t + o->thread_next, &t))
			return -EFAULT;
		n++;
	}
	return (ssize_t)n;
}
