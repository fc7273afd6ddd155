// SPDX-License-Identifier: Apache-2.0
/* A library whose method tables are made at run time, in several ways, for tests/unit/pymethod.c. */

typedef unsigned long word;

/* As PyMethodDef and, from m_name on, PyModuleDef. */
struct method {
	const char *name;
	void *fn;
	long flags;
	const char *doc;
};
struct def {
	const char *name, *doc;
	long size;
	struct method *methods;
};

#define FN(f, n) \
	void *f(void *self) \
	{ \
		return (char *)self + n; \
	}
FN(late_start, 1)
FN(late_end, 2)
FN(late_mark, 3)

/* A name is reached by its distance only; one is the end of a longer text. */
const char texts[] = "\0_late_start\0_late_end\0a_late_mark";
static const volatile int at_start = 1, at_end = 13, at_mark = 24;

static volatile struct method in_data[4];
static volatile struct def in_def = { texts, 0, 0, 0 };

static void put(volatile struct method *m, int at, void *fn)
{
	m->name = texts + at;
	m->fn = fn;
}

void clear(void)
{
	int i;

	for (i = 0; i < 4; i++)
		in_data[i].name = in_data[i].fn = 0;
	in_def.size = 0;
	in_def.methods = 0;
}

void fill_names(void)
{
	put(&in_data[0], at_start, 0);
	put(&in_data[1], at_end, (char *)(word)late_end + 1);
}

void fill_data(void)
{
	put(&in_data[0], at_start, late_start);
	put(&in_data[1], at_end, late_end);
	put(&in_data[2], at_mark, late_mark);
}

void fill_twice(void)
{
	fill_data();
	put(&in_data[3], at_start, late_mark);
}

void fill_elsewhere(struct method *table)
{
	put(&table[0], at_start, late_start);
	put(&table[1], at_end, late_end);
	put(&table[2], at_mark, late_mark);
	in_def.size = -1;
	in_def.methods = table;
}
