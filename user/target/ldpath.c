// SPDX-License-Identifier: Apache-2.0
/* Lists of directories: LD_LIBRARY_PATH, RUNPATH and RPATH, PYTHONPATH, PATH. */
#include "target/ldpath.h"

#include <ctype.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"

/*
 * glibc's DL_DST_LIB is its libdir: lib64 as distributed, on Debian the
 * multiarch one. $PLATFORM is AT_PLATFORM, which glibc 2.26 to 2.36 replace by
 * the kind of processor on x86-64 (sysdeps/x86/cpu-features.c).
 */
#ifdef __aarch64__
static const char *const libs[] = { "lib64", "lib", "lib/aarch64-linux-gnu" };
static const char *const platforms[] = { "aarch64" };
#else
static const char *const libs[] = { "lib64", "lib", "lib/x86_64-linux-gnu" };
static const char *const platforms[] = { "x86_64", "haswell", "xeon_phi" };
#endif

enum token { T_NONE, T_ORIGIN, T_LIB, T_PLATFORM };

/* Which token stands at p, behind its `$`, and how long it is: glibc's is_dst(). */
static enum token token_at(const char *p, const char *end, size_t *len)
{
	static const char *const names[] = {
		[T_ORIGIN] = "ORIGIN", [T_LIB] = "LIB", [T_PLATFORM] = "PLATFORM"
	};
	bool curly = p < end && *p == '{';
	enum token t;

	for (t = T_ORIGIN; t <= T_PLATFORM; t++) {
		size_t n = strlen(names[t]);
		const char *after = p + curly + n;

		if (after > end || memcmp(p + curly, names[t], n) != 0)
			continue;
		if (curly ? after == end || *after != '}'
			  : after < end && (isalnum((unsigned char)*after) || *after == '_'))
			continue;
		*len = n + (curly ? 2 : 0);
		return t;
	}
	return T_NONE;
}

struct entry {
	const char *p, *end;
	const struct ldpath *how;
	size_t lib, platform; /* which of the known values */
	bool has_lib, has_platform;
};

static bool append(char *dir, size_t *n, const char *s, size_t len)
{
	if (*n + len >= PATH_MAX)
		return false;
	memcpy(dir + *n, s, len);
	*n += len;
	return true;
}

/* The entry with its tokens replaced: PATH_MAX bytes at dir. False: it names nothing. */
static bool expand(struct entry *e, char *dir)
{
	const char *p = e->p, *text;
	size_t n = 0, len;

	if (!memchr(e->p, '$', (size_t)(e->end - e->p)) || !e->how->tokens)
		return append(dir, &n, e->p, (size_t)(e->end - e->p)) && (dir[n] = '\0', true);
	while (p < e->end) {
		enum token t = *p == '$' ? token_at(p + 1, e->end, &len) : T_NONE;

		if (t == T_NONE) {
			if (!append(dir, &n, p++, 1))
				return false;
			continue;
		}
		e->has_lib |= t == T_LIB;
		e->has_platform |= t == T_PLATFORM;
		text = t == T_ORIGIN ? e->how->origin
		       : t == T_LIB  ? libs[e->lib]
				     : platforms[e->platform];
		if (!text || !append(dir, &n, text, strlen(text)))
			return false;
		p += 1 + len;
	}
	dir[n] = '\0';
	return true;
}

/* As it is, or below the current directory. */
static int give(const struct ldpath *how, const char *dir, int (*fn)(void *ctx, const char *dir),
		void *ctx)
{
	char path[PATH_MAX];
	size_t n = how->cwd ? strlen(how->cwd) : 0, len = strlen(dir);

	if (dir[0] == '/')
		return fn(ctx, dir);
	if (!n || n + 1 + len >= sizeof(path))
		return 0;
	memcpy(path, how->cwd, n);
	if (len) {
		if (path[n - 1] != '/')
			path[n++] = '/';
		memcpy(path + n, dir, len);
	}
	path[n + len] = '\0';
	return fn(ctx, path);
}

static int each_value(struct entry *e, int (*fn)(void *ctx, const char *dir), void *ctx)
{
	char dir[PATH_MAX];
	int r = 0;

	for (e->lib = 0; !r && e->lib < MT_ARRAY_SIZE(libs); e->lib++) {
		for (e->platform = 0; !r && e->platform < MT_ARRAY_SIZE(platforms); e->platform++) {
			if (expand(e, dir))
				r = give(e->how, dir, fn, ctx);
			if (!e->has_platform)
				break;
		}
		if (!e->has_lib)
			break;
	}
	return r;
}

int ldpath__each(const char *list, const struct ldpath *how, int (*fn)(void *ctx, const char *dir),
		 void *ctx)
{
	int r = 0;

	/* A variable that is there but empty is none; an empty entry is one. */
	while (!r && *list) {
		size_t n = strcspn(list, how->separators);
		struct entry e = { .p = list, .end = list + n, .how = how };

		r = each_value(&e, fn, ctx);
		list += n;
		if (!*list)
			break;
		if (!*++list && !r) /* a separator at the end: one more empty entry */
			r = give(how, "", fn, ctx);
	}
	return r;
}
