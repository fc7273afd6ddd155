// SPDX-License-Identifier: Apache-2.0
/* The Python module "mstx" as the wheel has it: header-only mstx inside, nothing but PyInit_mstx
 * out. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "../cann/mstx_table.h"
#include "py_truth.h"

static int parse(PyObject *args, PyObject *kw, const char **msg, void **stream)
{
	static char *names[] = { "message", "stream", NULL };
	PyObject *s = Py_None;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "s|O", names, msg, &s))
		return 0;
	*stream = s == Py_None ? NULL : PyLong_AsVoidPtr(s);
	return !PyErr_Occurred();
}

static PyObject *WrapMstxMarkA(PyObject *self, PyObject *args, PyObject *kw)
{
	uint64_t t0 = py_truth_begin();
	const char *msg;
	void *stream;

	if (!parse(args, kw, &msg, &stream))
		return NULL;
	mstx_ready();
	if (mstx_table.mstxMarkAPtr)
		mstx_table.mstxMarkAPtr(msg, stream);
	if (t0)
		py_truth_note(t0, "py_mstx_mark", msg, 0, 1);
	Py_RETURN_NONE;
}

static PyObject *WrapMstxRangeStartA(PyObject *self, PyObject *args, PyObject *kw)
{
	uint64_t t0 = py_truth_begin(), id = 0;
	const char *msg;
	void *stream;

	if (!parse(args, kw, &msg, &stream))
		return NULL;
	mstx_ready();
	if (mstx_table.mstxRangeStartAPtr)
		id = mstx_table.mstxRangeStartAPtr(msg, stream);
	if (t0)
		py_truth_note(t0, "py_mstx_range_start", msg, id, 0);
	return PyLong_FromUnsignedLongLong(id);
}

static PyObject *WrapMstxRangeEnd(PyObject *self, PyObject *args, PyObject *kw)
{
	static char *names[] = { "range_id", NULL };
	uint64_t t0 = py_truth_begin();
	unsigned long long id;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "K", names, &id))
		return NULL;
	mstx_ready();
	if (mstx_table.mstxRangeEndPtr)
		mstx_table.mstxRangeEndPtr(id);
	if (t0)
		py_truth_note(t0, "py_mstx_range_end", NULL, id, 1);
	Py_RETURN_NONE;
}

#define FN(f) ((PyCFunction)(void (*)(void))(f))
static PyMethodDef methods[] = {
	{ "mark", FN(WrapMstxMarkA), METH_VARARGS | METH_KEYWORDS, "mark(message, stream=None)" },
	{ "range_start", FN(WrapMstxRangeStartA), METH_VARARGS | METH_KEYWORDS,
	  "range_start(message, stream=None)" },
	{ "range_end", FN(WrapMstxRangeEnd), METH_VARARGS | METH_KEYWORDS, "range_end(range_id)" },
	{ NULL, NULL, 0, NULL },
};

static struct PyModuleDef module = {
	PyModuleDef_HEAD_INIT, "mstx", NULL, -1, methods, NULL, NULL, NULL, NULL
};

PyMODINIT_FUNC PyInit_mstx(void);

__attribute__((visibility("default"))) PyMODINIT_FUNC PyInit_mstx(void)
{
	return PyModule_Create(&module);
}
