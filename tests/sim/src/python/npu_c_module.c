// SPDX-License-Identifier: Apache-2.0
/* A module shaped as torch_npu._C: its submodule _mstx has a method table that is filled at run
 * time. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "npu_entered.h"

static PyMethodDef methods[9];

static struct PyModuleDef mstx_module = {
	PyModuleDef_HEAD_INIT, "_mstx", NULL, -1, methods, NULL, NULL, NULL, NULL
};
static struct PyModuleDef module = {
	PyModuleDef_HEAD_INIT, "torch_npu._C", NULL, -1, NULL, NULL, NULL, NULL, NULL
};

/* Stores from code, as GCC makes of the real table: no relocation leads from a name to a function.
 */
static void fill(const char *name, PyCFunction f)
{
	static int n;

	methods[n].ml_name = name;
	methods[n].ml_meth = f;
	methods[n].ml_flags = METH_VARARGS;
	n++;
}

PyMODINIT_FUNC PyInit__C(void);

__attribute__((visibility("default"))) PyMODINIT_FUNC PyInit__C(void)
{
	PyObject *m, *sub;

	if (!methods[0].ml_name) {
		fill("_mark_on_host", THNPModule_markOnHost);
		fill("_mark", THNPModule_mark);
		fill("_range_start_on_host", THNPModule_rangeStartOnHost);
		fill("_range_start", THNPModule_rangeStart);
		fill("_range_end", THNPModule_rangeEnd);
		fill("_range_push_on_host", THNPModule_rangePushOnHost);
		fill("_range_push", THNPModule_rangePush);
		fill("_range_pop", THNPModule_rangePop);
	}
	m = PyModule_Create(&module);
	sub = m ? PyModule_Create(&mstx_module) : NULL;
	if (!sub || PyModule_AddObject(m, "_mstx", sub)) {
		Py_XDECREF(m);
		return NULL;
	}
	return m;
}
