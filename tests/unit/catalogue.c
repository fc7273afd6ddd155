// SPDX-License-Identifier: Apache-2.0
/* The table of probes agrees with itself, with the BPF programs and with real names. */
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "memtap/event.h"
#include "probe/probe.h"

Test(catalogue, wants_libraries)
{
	static const char *const good[] = {
		"libascend_hal.so",
		"libascend_hal.so.1",
		"libascend_hal.so.7.0.1",
		"libacl_rt.so",
		"libascendcl.so",
		"libascendcl.so.1",
		"libruntime.so",
		"libms_tools_ext.so",
		"libtorch_npu.so",
		"libc10.so",
		"_C.so",
		"_C.cpython-311-x86_64-linux-gnu.so",
		"mstx.so",
		"mstx.cpython-39-aarch64-linux-gnu.so",
		"libmindspore_memory_pool.so",
		"libmindspore_backend.so",
		"libmindspore_common.so",
		"libmindspore_ascend_res_manager.so",
		"libatb.so",
		"libmki.so",
	};
	static const char *const bad[] = {
		"",
		"libascend_hal.so.p",
		"libascend_hal.so.",
		"libascend_hal.so.1.bak",
		"libascend_hal.sox",
		"libascend_hal_so",
		"xlibascend_hal.so",
		"libascend_hal",
		"libacl_rt_impl.so",
		"libruntime_common.so",
		"libc10_npu.so",
		"libc.so.6",
		"_Cx.so",
		"_C.py",
		"mstxx.so",
		"libmindspore.so",
		"libtorch.so",
		"libms_tools_ext.so.debug",
	};
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(good); i++)
		cr_expect(catalogue__wants(good[i]), "%s", good[i]);
	for (i = 0; i < MT_ARRAY_SIZE(bad); i++)
		cr_expect(!catalogue__wants(bad[i]), "%s", bad[i]);
}

Test(catalogue, operators_only_when_asked_for)
{
	cr_expect(!catalogue__wants("libtorch_cpu.so"));
	catalogue__use(CLASS_ALL);
	cr_expect(!catalogue__wants("libtorch_cpu.so"));
	catalogue__use(CLASS_ALL | CLASS_OPS);
	cr_expect(catalogue__wants("libtorch_cpu.so"));
}

Test(catalogue, every_library_is_listed)
{
	size_t n, n_libs, i, j;
	const struct probe_def *d = catalogue__defs(&n);
	const char *const *libs;

	catalogue__use(CLASS_ALL | CLASS_OPS);
	libs = catalogue__libs(&n_libs);
	for (i = 0; i < n; i++) {
		for (j = 0; j < n_libs; j++)
			if (strcmp(libs[j], d[i].lib) == 0)
				break;
		cr_expect_lt(j, n_libs, "%s is in no list", d[i].lib);
	}
	for (j = 0; j < n_libs; j++) {
		for (i = 0; i < n; i++)
			if (strcmp(libs[j], d[i].lib) == 0)
				break;
		cr_expect_lt(i, n, "nothing is probed in %s", libs[j]);
	}
}

Test(catalogue, no_symbol_twice)
{
	size_t n, i, j, k, l;
	const struct probe_def *d = catalogue__defs(&n);

	cr_assert_gt(n, 50);
	for (i = 0; i < n; i++) {
		cr_expect(d[i].symbol[0] && d[i].symbol[0][0], "entry %zu", i);
		for (j = i + 1; j < n; j++) {
			if (strcmp(d[i].lib, d[j].lib) || d[i].fn != d[j].fn)
				continue;
			for (k = 0; k < 3 && d[i].symbol[k]; k++)
				for (l = 0; l < 3 && d[j].symbol[l]; l++)
					cr_expect_str_neq(d[i].symbol[k], d[j].symbol[l]);
		}
	}
}

/* The object that the library was built from lies beside this test. */
static struct bpf_object *programs(void)
{
	char exe[PATH_MAX], path[PATH_MAX + 32];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	struct bpf_object *obj;
	char *p;
	int i;

	cr_assert_gt(n, 0);
	exe[n] = '\0';
	for (i = 0; i < 3 && (p = strrchr(exe, '/')); i++)
		*p = '\0';
	snprintf(path, sizeof(path), "%s/bpf/merged.o", exe);
	obj = bpf_object__open_file(path, NULL);
	cr_assert(obj, "%s", path);
	return obj;
}

static void there(struct bpf_object *obj, const char *prog, const char *end)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%s", prog, end);
	cr_expect(bpf_object__find_program_by_name(obj, name), "no program %s", name);
}

Test(catalogue, every_program_exists)
{
	struct bpf_object *obj = programs();
	size_t n, i;
	const struct probe_def *d = catalogue__defs(&n);

	/* as probe/prober.c names them */
	for (i = 0; i < n; i++) {
		switch (d[i].kind) {
		case PROBE_ENTRY:
			there(obj, d[i].prog, "");
			break;
		case PROBE_PYTHON:
			there(obj, d[i].prog, "");
			there(obj, "py_ret", "");
			break;
		case PROBE_CALL:
			there(obj, d[i].prog, "_s");
			/* fallthrough */
		case PROBE_RETS:
		case PROBE_OPS:
			there(obj, d[i].prog, "_e");
			there(obj, d[i].prog, "_r");
			break;
		case PROBE_EXITS:
			there(obj, d[i].prog, "_r");
			break;
		default:
			cr_expect_fail("kind %d of %s", d[i].kind, d[i].symbol[0]);
		}
	}
	bpf_object__close(obj);
}

/*
 * An argument in a register must be among those that the site keeps. On x86-64
 * the seventh and later ones lie on the stack, on aarch64 the ninth.
 */
Test(catalogue, arguments_are_kept)
{
	static const int in_registers[] = { 6, 8 };
	size_t n, i, k, m;
	const struct probe_def *d = catalogue__defs(&n);

	for (i = 0; i < n; i++) {
		cr_expect_leq(d[i].nargs, 8, "%s", d[i].symbol[0]);
		for (k = 0; k < MT_ARRAY_SIZE(d[i].arg); k++) {
			cr_expect_geq(d[i].arg[k], -1, "%s", d[i].symbol[0]);
			cr_expect_leq(d[i].arg[k], 7, "%s", d[i].symbol[0]);
			for (m = 0; m < MT_ARRAY_SIZE(in_registers); m++)
				cr_expect(d[i].arg[k] < d[i].nargs ||
						  d[i].arg[k] >= in_registers[m],
					  "%s: argument %d, but %d are kept", d[i].symbol[0],
					  d[i].arg[k], d[i].nargs);
		}
	}
}

Test(catalogue, fields_in_range)
{
	size_t n, i;
	const struct probe_def *d = catalogue__defs(&n);

	for (i = 0; i < n; i++) {
		const char *s = d[i].symbol[0];

		cr_expect(d[i].fn > MT_FN_NONE && d[i].fn < MT_FN_MAX && d[i].fn != MT_FN_TASK,
			  "%s", s);
		cr_expect(d[i].klass && !(d[i].klass & (d[i].klass - 1)) &&
				  (d[i].klass & (CLASS_ALL | CLASS_OPS)),
			  "%s", s);
		cr_expect_leq(d[i].name_kind, MT_NAME_STRING, "%s", s);
		/* a name source needs an argument, and an argument a kind */
		if (d[i].fn == MT_FN_LAUNCH)
			cr_expect_eq(d[i].name_kind == MT_NAME_NONE, d[i].arg[0] < 0, "%s", s);
		else
			cr_expect_eq(d[i].name_kind, MT_NAME_NONE, "%s", s);
		/* exceptions leave C++ functions: never a return probe there */
		if (strncmp(s, "_Z", 2) == 0 || strstr(s, "::"))
			cr_expect_neq(d[i].kind, PROBE_CALL, "%s", s);
	}
}

Test(catalogue, text_for_people_names_all)
{
	const char *text = catalogue__libs_text();
	char name[64];
	size_t n = 0;

	/* every lib*.so that the text names is wanted */
	for (text = strstr(text, "lib"); text; text = strstr(text + n, "lib")) {
		n = strcspn(text, ",");
		snprintf(name, sizeof(name), "%.*s", (int)n, text);
		cr_expect(catalogue__wants(name), "%s", name);
	}
}

/* ---- what a file's reports say ---- */

static const struct probe_report *report_of(const struct probed_file *f, const char *symbol)
{
	size_t i;

	for (i = 0; i < f->n_reports; i++)
		if (!strcmp(f->reports[i].symbol, symbol))
			return &f->reports[i];
	cr_assert(false, "no report of %s", symbol);
	return NULL;
}

Test(prober, two_names_of_one_function)
{
	struct prober_opts opts = { .classes = CLASS_ALL, .dry_run = true };
	struct features none = { 0 };
	struct prober *pr = prober__new(NULL, &none, &opts);
	char dir[] = "/tmp/memtap-unit-XXXXXX", path[64], cmd[512];
	const struct probed_file *f;
	int fd;

	cr_assert(pr && mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/libruntime.so", dir);
	snprintf(cmd, sizeof(cmd),
		 "echo 'int rtMalloc(void **p) { *p = p; return 0; }"
		 "int rtMemAlloc(void **p) __attribute__((alias(\"rtMalloc\")));' | "
		 "cc -O2 -shared -fPIC -x c -o %s -",
		 path);
	if (system(cmd) != 0) { /* NOLINT(cert-env33-c) */
		rmdir(dir);
		cr_skip("no C compiler on this machine");
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_eq(prober__add(pr, fd, path, 0), 1);
	f = prober__file(pr, 0);
	cr_expect_str_eq(report_of(f, "rtMalloc")->state, "found");
	/* No second probe, and nothing that is not seen. */
	cr_expect_str_eq(report_of(f, "rtMemAlloc")->state, "failed");
	cr_expect(!probe_report__failed(report_of(f, "rtMemAlloc")));
	cr_expect(!probe_report__failed(report_of(f, "rtMalloc")));
	cr_expect(!probe_report__failed(report_of(f, "rtMallocHost"))); /* missing */
	cr_expect(probe_report__failed(&(struct probe_report){ .state = "failed" }));
	close(fd);
	unlink(path);
	rmdir(dir);
	prober__free(pr);
}
