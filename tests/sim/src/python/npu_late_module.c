// SPDX-License-Identifier: Apache-2.0
/*
 * A module shaped as torch_npu._C whose method table nothing in the file leads to: code fills it in
 * at import, from an index of one blob of names. The table is on the heap, as that of torch_npu
 * 2.1.0.post8 (a std::vector), or in the module's own data.
 *
 * SIM_PY_TABLE=data: the latter. SIM_PY_IMPORT=FILE: the table is filled when FILE exists.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdlib.h>
#include <unistd.h>

#include "npu_entered.h"

#define N_METHODS 8

/* One text: no address of a name but this one is in the code. "range_mark" ends as a name does. */
static const char names[] = "\0"
			    "_mark_on_host\0"
			    "_mark\0"
			    "_range_start_on_host\0"
			    "_range_start\0"
			    "_range_end\0"
			    "_range_push_on_host\0"
			    "_range_push\0"
			    "sim_range_pop\0";

static PyMethodDef in_data[N_METHODS + 1];

static struct PyModuleDef mstx_module = {
	PyModuleDef_HEAD_INIT, "_mstx", NULL, -1, NULL, NULL, NULL, NULL, NULL
};
static struct PyModuleDef module = {
	PyModuleDef_HEAD_INIT, "torch_npu._C", NULL, -1, NULL, NULL, NULL, NULL, NULL
};

/* In an order of its own, so that no function is near its name. */
static __attribute__((noinline)) PyCFunction function_of(int i)
{
	switch (i * 5 % N_METHODS) {
	case 0:
		return THNPModule_markOnHost;
	case 5:
		return THNPModule_mark;
	case 2:
		return THNPModule_rangeStartOnHost;
	case 7:
		return THNPModule_rangeStart;
	case 4:
		return THNPModule_rangeEnd;
	case 1:
		return THNPModule_rangePushOnHost;
	case 6:
		return THNPModule_rangePush;
	default:
		return THNPModule_rangePop;
	}
}

static int fill(void)
{
	const char *file = getenv("SIM_PY_IMPORT"), *where = getenv("SIM_PY_TABLE"), *name = names;
	PyMethodDef *table = in_data;
	int i;

	while (file && access(file, F_OK))
		usleep(1000);
	if (!where || strcmp(where, "data") != 0)
		table = calloc(N_METHODS + 1, sizeof(*table));
	if (!table)
		return -1;
	for (i = 0; i < N_METHODS; i++) {
		name += strlen(name) + 1;
		/* Merged texts: the last name is the end of a longer one. */
		table[i].ml_name = i == N_METHODS - 1 ? name + 3 : name;
		table[i].ml_meth = function_of(i);
		table[i].ml_flags = METH_VARARGS;
	}
	mstx_module.m_methods = table;
	return 0;
}

PyMODINIT_FUNC PyInit__C(void);

__attribute__((visibility("default"))) PyMODINIT_FUNC PyInit__C(void)
{
	PyObject *m, *sub;

	if (!mstx_module.m_methods && fill())
		return PyErr_NoMemory();
	m = PyModule_Create(&module);
	sub = m ? PyModule_Create(&mstx_module) : NULL;
	if (!sub || PyModule_AddObject(m, "_mstx", sub)) {
		Py_XDECREF(m);
		return NULL;
	}
	return m;
}
