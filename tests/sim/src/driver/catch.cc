// SPDX-License-Identifier: Apache-2.0
/* Where exceptions that leave the allocator end: the caller's try blocks. */
#include <cstddef>
#include <exception>

extern "C" {

void *catch_malloc(void *(*fn)(size_t, void *), size_t n, void *stream, int *threw);
void *catch_block(void *(*fn)(size_t, void *, int), size_t n, void *stream, int device, int *threw);
int catch_check(int (*fn)(int), int fail);
int catch_op(int (*fn)(const char *, void *, size_t), const char *name, void *stream, size_t ws,
	     int *threw);

void *catch_malloc(void *(*fn)(size_t, void *), size_t n, void *stream, int *threw)
{
	try {
		return fn(n, stream);
	} catch (const std::exception &) {
		++*threw;
		return nullptr;
	}
}

void *catch_block(void *(*fn)(size_t, void *, int), size_t n, void *stream, int device, int *threw)
{
	try {
		return fn(n, stream, device);
	} catch (const std::exception &) {
		++*threw;
		return nullptr;
	}
}

int catch_check(int (*fn)(int), int fail)
{
	try {
		fn(fail);
		return 0;
	} catch (const std::exception &) {
		return 1;
	}
}

int catch_op(int (*fn)(const char *, void *, size_t), const char *name, void *stream, size_t ws,
	     int *threw)
{
	try {
		return fn(name, stream, ws);
	} catch (const std::exception &) {
		++*threw;
		return 0;
	}
}

} // extern "C"
