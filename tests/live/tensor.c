// SPDX-License-Identifier: Apache-2.0
/*
 * Tensors for any CPython from 3.8 on (its stable interface): torch._C.TensorBase with the
 * structures behind it as three generations of torch lay them out, and no memory in them.
 *
 *   TensorBase(address, bytes, device type, index, generation[, gradient])
 */
#define Py_LIMITED_API 0x03080000
#include <Python.h>

#include <stdint.h>
#include <stdlib.h>

struct tensor {
	PyObject_HEAD
	uint64_t words[4]; /* where the structure is: second word, later the first */
	PyObject *grad; /* kept, so that its structure is */
};

/* By generation: 2.1, 2.7, 2.14. */
static const struct {
	unsigned int cdata, head, pyobj, grad;
} layouts[] = { { 1, 3, 8, 2 }, { 1, 2, 7, 5 }, { 0, 2, 6, 5 } };

static uint64_t function;

static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	unsigned long long address, bytes, device, index, generation;
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	uint64_t *impl, *storage, *meta;
	struct tensor *t, *grad = NULL;
	unsigned int head;

	(void)kw;
	if (!PyArg_ParseTuple(args, "KKKKK|O", &address, &bytes, &device, &index, &generation, &grad))
		return NULL;
	t = (struct tensor *)alloc(type, 0);
	impl = calloc(32, 8);
	storage = calloc(16, 8);
	meta = calloc(16, 8);
	if (!t || !impl || !storage || !meta)
		return PyErr_NoMemory();
	head = layouts[generation].head;
	impl[0] = storage[0] = meta[0] = (uint64_t)(uintptr_t)&function & ~7ULL;
	impl[1] = storage[1] = head == 3 ? 1 : 0x100000001;
	if (head == 3)
		impl[2] = storage[2] = 1;
	impl[head] = address == UINT64_MAX ? 0 : (uint64_t)(uintptr_t)storage;
	impl[head + 1] = (uint64_t)(uintptr_t)meta;
	impl[layouts[generation].pyobj] = (uint64_t)(uintptr_t)t;
	storage[head] = address;
	storage[head + 1] = impl[0];
	storage[head + 2] = address;
	storage[head + 3] = 0xabcd0000 | index << 8 | device;
	storage[head + 4] = bytes;
	/* The name: a string that points into itself, or a pointer to what is empty. */
	meta[1] = layouts[generation].grad == 5 ? (uint64_t)(uintptr_t)(meta + 3) : impl[0];
	if ((PyObject *)grad == Py_None)
		grad = NULL;
	if (grad) {
		meta[layouts[generation].grad] = grad->words[layouts[generation].cdata];
		t->grad = (PyObject *)grad;
		Py_IncRef(t->grad);
	} else { /* one that is not defined */
		uint64_t *undefined = calloc(32, 8);

		undefined[0] = impl[0];
		undefined[1] = head == 3 ? 1 : 0x100000001;
		meta[layouts[generation].grad] = (uint64_t)(uintptr_t)undefined;
	}
	t->words[layouts[generation].cdata] = (uint64_t)(uintptr_t)impl;
	return (PyObject *)t;
}

static PyType_Slot slots[] = { { Py_tp_new, tensor_new }, { 0, NULL } };

static PyType_Spec spec = { .name = "torch._C.TensorBase",
			    .basicsize = sizeof(struct tensor),
			    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
			    .slots = slots };

static struct PyModuleDef definition = { PyModuleDef_HEAD_INIT, .m_name = "tensor", .m_size = -1 };

PyMODINIT_FUNC PyInit_tensor(void);
PyMODINIT_FUNC PyInit_tensor(void)
{
	PyObject *m = PyModule_Create(&definition), *type = PyType_FromSpec(&spec);

	if (!m || !type || PyModule_AddObject(m, "TensorBase", type))
		return NULL;
	return m;
}
