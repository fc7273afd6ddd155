// SPDX-License-Identifier: Apache-2.0
/* The functions behind torch_npu._C._mstx, for both modules that are shaped so. */
#ifndef SIM_NPU_ENTERED_H
#define SIM_NPU_ENTERED_H

#include "py_truth.h"

/*
 * In a process that is not profiled the real functions return before they reach the mstx library.
 * The message is item 0 of the tuple.
 */
static PyObject *entered(const char *fn, PyObject *args, int isvoid)
{
	uint64_t t0 = py_truth_begin();
	const char *text = NULL;

	if (PyTuple_Check(args) && PyTuple_GET_SIZE(args) > 0 &&
	    PyUnicode_Check(PyTuple_GET_ITEM(args, 0)))
		text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(args, 0));
	if (t0)
		py_truth_note(t0, fn, text, 0, isvoid);
	if (isvoid)
		Py_RETURN_NONE;
	return PyLong_FromLong(0);
}

#define ENTER(name, fn, isvoid)                                     \
	static __attribute__((noinline))                            \
	PyObject *THNPModule_##name(PyObject *self, PyObject *args) \
	{                                                           \
		return entered("npu_mstx_" fn, args, isvoid);       \
	}

ENTER(mark, "mark", 1)
ENTER(markOnHost, "mark_on_host", 1)
ENTER(rangeStart, "range_start", 0)
ENTER(rangeStartOnHost, "range_start_on_host", 0)
ENTER(rangeEnd, "range_end", 1)
ENTER(rangePush, "range_push", 0)
ENTER(rangePushOnHost, "range_push_on_host", 0)
ENTER(rangePop, "range_pop", 0)

#endif
