// SPDX-License-Identifier: Apache-2.0
/* The lists that the vendor's options take, and the files of --input. */
#include "cli/msleaks_options.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_MAX (8ULL << 30) /* bytes of a file that the vendor's tool reads */
#define DEPTH_MAX 32 /* folders of a path */

bool msleaks_list__word(const char **list, char *buf, size_t size, bool *bad)
{
	const char *p = *list, *comma, *wide, *end;
	size_t n;

	if (!*p || *bad)
		return false;
	comma = strchr(p, ',');
	wide = strstr(p, "\xef\xbc\x8c");
	end = wide && (!comma || wide < comma) ? wide : comma;
	n = end ? (size_t)(end - p) : strlen(p);
	if (!n || n >= size) {
		*bad = true;
		return false;
	}
	memcpy(buf, p, n);
	buf[n] = '\0';
	*list = !end ? p + n : end + (end == wide ? 3 : 1);
	return true;
}

int msleaks_list__level(const char *list, unsigned int *level)
{
	bool bad = false;
	char w[16];

	*level = 0;
	while (msleaks_list__word(&list, w, sizeof(w), &bad)) {
		if (!strcmp(w, "0") || !strcmp(w, "op"))
			*level |= LEVEL_OP;
		else if (!strcmp(w, "1") || !strcmp(w, "kernel"))
			*level |= LEVEL_KERNEL;
		else
			return -EINVAL;
	}
	return *level && !bad ? 0 : -EINVAL;
}

int msleaks_list__events(const char *list, unsigned int *events, bool *none, bool *traceback)
{
	bool bad = false;
	char w[16];

	*events = 0;
	*none = *traceback = false;
	while (msleaks_list__word(&list, w, sizeof(w), &bad)) {
		if (!strcmp(w, "alloc") || !strcmp(w, "free"))
			*events |= EVENTS_ALLOC; /* they cannot be split (msleaks.md 1.2) */
		else if (!strcmp(w, "launch"))
			*events |= EVENTS_LAUNCH;
		else if (!strcmp(w, "access"))
			*events |= EVENTS_ALLOC | EVENTS_ACCESS;
		else if (!strcmp(w, "traceback"))
			*traceback = true;
		else if (!strcmp(w, "none"))
			*none = true;
		else
			return -EINVAL;
	}
	if (bad || (*none && (*events || *traceback)))
		return -EINVAL;
	return *events || *none || *traceback ? 0 : -EINVAL;
}

int msleaks_list__device(const char *list, bool *npus, uint32_t *slots, bool *cpu)
{
	bool bad = false, any = false;
	const char *n;
	char w[16];

	while (msleaks_list__word(&list, w, sizeof(w), &bad)) {
		any = true;
		if (!strcmp(w, "npu")) {
			*npus = true;
		} else if (!strcmp(w, "cpu")) {
			*cpu = true;
		} else if (!strncmp(w, "npu:", 4)) {
			n = w + 4;
			if (!isdigit((unsigned char)n[0]) || strlen(n) > 2 ||
			    (n[1] && !isdigit((unsigned char)n[1])) || atoi(n) > 31)
				return -EINVAL;
			*slots |= 1u << atoi(n);
		} else {
			return -EINVAL;
		}
	}
	return any && !bad ? 0 : -EINVAL;
}

int msleaks_list__steps(const char *list, uint64_t steps[MSLEAKS_MAX_STEPS], unsigned int *n)
{
	bool bad = false;
	char w[24];
	size_t i;

	*n = 0;
	while (msleaks_list__word(&list, w, sizeof(w), &bad)) {
		if (*n == MSLEAKS_MAX_STEPS || w[0] == '0')
			return -EINVAL;
		for (i = 0; w[i]; i++)
			if (!isdigit((unsigned char)w[i]))
				return -EINVAL;
		errno = 0;
		steps[*n] = strtoull(w, NULL, 10);
		if (errno)
			return -EINVAL;
		++*n;
	}
	return *n && !bad ? 0 : -EINVAL;
}

/* "oom", or whatever begins so; a bad K is the default, as the vendor's tool has it. */
static void read_oom(const char *w, unsigned int *top)
{
	const char *k = !strncmp(w, "oom:", 4) ? w + 4 : NULL;
	unsigned long v;
	char *end;

	*top = 10;
	if (!k)
		return;
	v = strtoul(k, &end, 10);
	if (isdigit((unsigned char)*k) && !*end && v >= 1 && v <= 1000)
		*top = (unsigned int)v;
	else
		fprintf(stderr,
			"[msmemscope] Warn: invalid OOM top-K value '%s', using default 10.\n", k);
}

int msleaks_list__analysis(const char *list, unsigned int *analysis, unsigned int *oom_top)
{
	bool bad = false, none = false;
	char w[32];

	*analysis = 0;
	while (msleaks_list__word(&list, w, sizeof(w), &bad)) {
		if (!strcmp(w, "leaks")) {
			*analysis |= MSLEAKS_LEAKS;
		} else if (!strcmp(w, "decompose")) {
			*analysis |= MSLEAKS_DECOMPOSE;
		} else if (!strcmp(w, "inefficient")) {
			*analysis |= MSLEAKS_INEFFICIENT;
		} else if (!strncmp(w, "oom", 3)) {
			*analysis |= MSLEAKS_OOM;
			read_oom(w, oom_top);
		} else if (!strcmp(w, "none")) {
			none = true;
		} else {
			return -EINVAL;
		}
	}
	if (none && *analysis) {
		fputs("[msmemscope] Warn: 'none' mixed with other analysis types, all analysis "
		      "cleared.\n",
		      stderr);
		*analysis = 0;
	}
	return bad ? -EINVAL : 0;
}

static int check_input(const struct msleaks_opts *o, const char *path)
{
	char text[PATH_MAX + 64];
	unsigned int depth = 0;
	const char *p;
	struct stat st;

	for (p = path; *p; p++)
		depth += *p == '/' && p[1] && p[1] != '/';
	if (p - path > PATH_MAX || depth > DEPTH_MAX)
		return -EINVAL;
	if (stat(path, &st)) {
		snprintf(text, sizeof(text), "The file path %s do not exist.", path);
		msleaks__error(o, text);
		return -EINVAL;
	}
	if (access(path, R_OK)) {
		snprintf(text, sizeof(text), "The path %s is not readable.", path);
		msleaks__error(o, text);
		return -EINVAL;
	}
	return S_ISREG(st.st_mode) && (uint64_t)st.st_size > INPUT_MAX ? -EINVAL : 0;
}

int msleaks__check_inputs(const struct msleaks_opts *o)
{
	int i, err = 0;

	for (i = 0; i < 2; i++)
		if (!o->input[i] || check_input(o, o->input[i]))
			err = -EINVAL;
	return err;
}
