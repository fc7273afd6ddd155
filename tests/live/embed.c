// SPDX-License-Identifier: Apache-2.0
/*
 * A service that embeds Python: embed PROGRAM ARGUMENTS...
 *
 * It takes 40 keys of the C library before, so that Python's is not among those
 * in the thread itself; a thread that never runs Python, and one that did once.
 */
#include <Python.h>

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *without_python(void *arg)
{
	for (;;)
		pause();
	return NULL;
}

/* Its thread state stays, without frames. */
static void *once_python(void *arg)
{
	PyGILState_STATE state = PyGILState_Ensure();

	PyRun_SimpleString("1 + 1");
	Py_BEGIN_ALLOW_THREADS for (;;) pause();
	Py_END_ALLOW_THREADS PyGILState_Release(state);
	return NULL;
}

int main(int argc, char **argv)
{
	wchar_t *args[16] = { L"embed" };
	pthread_t t;
	pthread_key_t key;
	FILE *f;
	int i, rc;

	for (i = 0; i < 40; i++)
		if (pthread_key_create(&key, NULL))
			return 1;
	if (argc < 2 || argc > 16)
		return 2;
	f = fopen(argv[1], "re");
	if (!f || pthread_create(&t, NULL, without_python, NULL))
		return 1;
	Py_InitializeEx(0);
	for (i = 1; i < argc; i++)
		args[i - 1] = Py_DecodeLocale(argv[i], NULL);
	PySys_SetArgvEx(argc - 1, args, 0);
	if (pthread_create(&t, NULL, once_python, NULL))
		return 1;
	rc = PyRun_SimpleFile(f, argv[1]);
	fclose(f);
	return rc ? 1 : 0;
}
