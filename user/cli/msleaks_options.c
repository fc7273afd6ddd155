// SPDX-License-Identifier: Apache-2.0
/* The options of the vendor's msleaks as a table (msleaks.md 1.1), and their messages. */
#include "cli/msleaks_options.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WATCH_NAME_MAX 254

static int read_flag(bool *flag)
{
	*flag = true;
	return 0;
}

static int read_help(struct msleaks_opts *o, const char *value, const char **why)
{
	(void)value, (void)why;
	return read_flag(&o->help);
}

static int read_version(struct msleaks_opts *o, const char *value, const char **why)
{
	(void)value, (void)why;
	return read_flag(&o->version);
}

static int read_compare(struct msleaks_opts *o, const char *value, const char **why)
{
	(void)value, (void)why;
	return read_flag(&o->compare);
}

static int read_verbose(struct msleaks_opts *o, const char *value, const char **why)
{
	(void)value, (void)why;
	return read_flag(&o->verbose);
}

static int read_quiet(struct msleaks_opts *o, const char *value, const char **why)
{
	(void)value, (void)why;
	return read_flag(&o->quiet);
}

static int read_extended(struct msleaks_opts *o, const char *value, const char **why)
{
	(void)value, (void)why;
	return read_flag(&o->extended);
}

static int read_strict(struct msleaks_opts *o, const char *value, const char **why)
{
	(void)value, (void)why;
	return read_flag(&o->strict);
}

static int read_exact(struct msleaks_opts *o, const char *value, const char **why)
{
	(void)value, (void)why;
	return read_flag(&o->exact_ranges);
}

static int read_level(struct msleaks_opts *o, const char *value, const char **why)
{
	*why = "invalid data trace level input.";
	return msleaks_list__level(value, &o->level);
}

static int read_events(struct msleaks_opts *o, const char *value, const char **why)
{
	bool none = false;
	int err = msleaks_list__events(value, &o->events, &none, &o->traceback);

	*why = "invalid event trace type input.";
	/* V-seed knows this word only in its Python API. */
	return o->traceback && o->generation == MSLEAKS_SEED ? -EINVAL : err;
}

static int read_steps(struct msleaks_opts *o, const char *value, const char **why)
{
	*why = "invalid steps input.";
	return msleaks_list__steps(value, o->steps, &o->n_steps);
}

static int read_depth(const char *text, bool *on, uint32_t *depth)
{
	uint32_t v = 0;

	*depth = MSLEAKS_DEPTH;
	*on = true;
	if (!text)
		return 0;
	if (!*text || strlen(text) > 4)
		return -EINVAL;
	for (; *text; text++) {
		if (!isdigit((unsigned char)*text))
			return -EINVAL;
		v = v * 10 + (uint32_t)(*text - '0');
	}
	*depth = v;
	*on = v > 0; /* a stack of no frames */
	return v > MSLEAKS_MAX_DEPTH ? -EINVAL : 0;
}

static int read_stack(struct msleaks_opts *o, const char *value, const char **why)
{
	bool bad = false;
	char w[32], *depth;
	int err = 0;

	*why = "invalid call-stack depth input.";
	o->stack_c = o->stack_python = false;
	while (!err && msleaks_list__word(&value, w, sizeof(w), &bad)) {
		depth = strchr(w, ':');
		if (depth)
			*depth++ = '\0';
		if (!strcmp(w, "c"))
			err = read_depth(depth, &o->stack_c, &o->c_depth);
		else if (!strcmp(w, "python"))
			err = read_depth(depth, &o->stack_python, &o->python_depth);
		else
			err = -EINVAL;
	}
	return bad ? -EINVAL : err;
}

static int read_analysis(struct msleaks_opts *o, const char *value, const char **why)
{
	*why = "invalid analysis type input.";
	return msleaks_list__analysis(value, &o->analysis, &o->oom_top);
}

static bool is_ordinal(const char *s)
{
	if (!*s || (*s == '0' && s[1]))
		return false;
	for (; *s; s++)
		if (!isdigit((unsigned char)*s))
			return false;
	return true;
}

/* [start[:output]],end[,full-content] */
static int read_watch(struct msleaks_opts *o, const char *value, const char **why)
{
	char part[3][WATCH_NAME_MAX + 16], *out;
	const char *comma;
	size_t n = 0, len;

	*why = "invalid watch config.";
	while (n < 3) {
		comma = strchr(value, ',');
		len = comma ? (size_t)(comma - value) : strlen(value);
		if (len >= sizeof(part[0]))
			return -EINVAL;
		memcpy(part[n], value, len);
		part[n++][len] = '\0';
		value += len;
		if (!comma)
			break;
		value++;
	}
	if (n < 2 || *value || !*part[1] || strlen(part[1]) > WATCH_NAME_MAX ||
	    (n == 3 && strcmp(part[2], "full-content") != 0))
		return -EINVAL;
	out = strchr(part[0], ':');
	if (out)
		*out++ = '\0';
	if (out && (!is_ordinal(out) || !*part[0]))
		return -EINVAL;
	o->watch = true;
	return strlen(part[0]) > WATCH_NAME_MAX ? -EINVAL : 0;
}

static int read_input(struct msleaks_opts *o, const char *value, const char **why)
{
	const char *wide = strstr(value, "\xef\xbc\x8c"), *comma = strchr(value, ',');
	const char *at = wide && (!comma || wide < comma) ? wide : comma;
	size_t skip = at == wide ? 3 : 1;
	char *second;

	*why = "invalid paths input.";
	free(o->inputs);
	o->inputs = strdup(value);
	o->input[0] = o->input[1] = NULL;
	if (!o->inputs || !at)
		return -EINVAL;
	o->inputs[at - value] = '\0';
	second = o->inputs + (at - value) + skip;
	if (!*o->inputs || !*second || strchr(second, ',') || strstr(second, "\xef\xbc\x8c"))
		return -EINVAL;
	o->input[0] = o->inputs;
	o->input[1] = second;
	return 0;
}

/* One character that a path may have; its bytes, 0: none. */
static size_t path_char(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	unsigned int c;

	if (isalnum(p[0]) || strchr("_-./~ ", *s))
		return 1;
	if ((p[0] & 0xf0) != 0xe0 || (p[1] & 0xc0) != 0x80 || (p[2] & 0xc0) != 0x80)
		return 0;
	c = (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
	return c >= 0x4e00 && c <= 0x9fa5 ? 3 : 0;
}

static int read_output(struct msleaks_opts *o, const char *value, const char **why)
{
	unsigned int depth = 0;
	const char *p;
	size_t n;

	*why = "empty output path.";
	if (!*value)
		return -EINVAL;
	*why = "invalid output path.";
	if (strchr("=+-@", *value) || strlen(value) >= 4096)
		return -EINVAL;
	for (p = value; *p; p += n) {
		n = path_char(p);
		if (!n)
			return -EINVAL;
		depth += *p == '/' && p[1] && p[1] != '/';
	}
	o->output = value;
	return depth > 32 ? -EINVAL : 0;
}

static int read_format(struct msleaks_opts *o, const char *value, const char **why)
{
	*why = "--data-format param is invalid. DATA_FORMAT can only be set csv,db.";
	o->format = !strcmp(value, "db") ? OUT_DB : OUT_CSV;
	return strcmp(value, "db") != 0 && strcmp(value, "csv") != 0 ? -EINVAL : 0;
}

static int read_device(struct msleaks_opts *o, const char *value, const char **why)
{
	*why = "invalid device.";
	o->npus = o->cpu = false;
	o->npu_slots = 0;
	return msleaks_list__device(value, &o->npus, &o->npu_slots, &o->cpu);
}

static int read_mode(struct msleaks_opts *o, const char *value, const char **why)
{
	*why = "--collect-mode param is invalid.";
	o->custom = !strcmp(value, "custom") || !strcmp(value, "deferred");
	return !o->custom && strcmp(value, "full") != 0 && strcmp(value, "immediate") != 0 ? -EINVAL
											   : 0;
}

static int read_log(struct msleaks_opts *o, const char *value, const char **why)
{
	static const struct {
		const char *word;
		enum log_level level;
	} words[] = { { "debug", LOG_DEBUG },
		      { "info", LOG_INFO },
		      { "warn", LOG_WARN },
		      { "warning", LOG_WARN },
		      { "error", LOG_ERROR } };
	size_t i;

	*why = "--log-level param is invalid. LOG_LEVEL can only be set info,warn,error.";
	for (i = 0; i < MT_ARRAY_SIZE(words); i++) {
		if (strcmp(value, words[i].word) != 0)
			continue;
		o->log_level = words[i].level;
		o->log_given = true;
		return 0;
	}
	return -EINVAL;
}

static int read_generation(struct msleaks_opts *o, const char *value, const char **why)
{
	*why = "--generation param is invalid.";
	o->generation = !strcmp(value, "now") ? MSLEAKS_NOW : MSLEAKS_SEED;
	return strcmp(value, "now") != 0 && strcmp(value, "seed") != 0 ? -EINVAL : 0;
}

static const struct msleaks_option table[] = {
	{ .name = "help", .letter = 'h', .help = "this text", .read = read_help },
	{ .name = "version", .letter = 'V', .help = "print the version", .read = read_version },
	{ .name = "level",
	  .values = "a list of 0 (op), 1 (kernel)",
	  .def = "0",
	  .help = "operators, kernel launches",
	  .read = read_level },
	{ .name = "events",
	  .values = "a list of alloc, free, launch, access, or none",
	  .def = "alloc,free,launch",
	  .help = "which events have rows",
	  .read = read_events },
	{ .name = "steps",
	  .values = "a list of 1 to 5 numbers from 1",
	  .help = "only what happens in these steps",
	  .read = read_steps },
	{ .name = "call-stack",
	  .values = "a list of c[:DEPTH], python[:DEPTH], DEPTH from 0 to 1000",
	  .help = "stacks of memory events, of Python also of operators (DEPTH 50)",
	  .read = read_stack },
	{ .name = "analysis",
	  .values = "a list of leaks, decompose, inefficient, oom[:K], or none",
	  .def = "leaks",
	  .help = "what is analysed when the program has ended",
	  .read = read_analysis },
	{ .name = "compare", .help = "compare two dumps, trace nothing", .read = read_compare },
	{ .name = "input",
	  .values = "two paths",
	  .help = "the dumps that --compare compares",
	  .read = read_input },
	{ .name = "input-path",
	  .letter = 'i',
	  .newer = true,
	  .old = "input",
	  .values = "two paths",
	  .help = "the same",
	  .read = read_input },
	{ .name = "output",
	  .values = "a folder",
	  .def = "./leaksDumpResults",
	  .help = "of the files",
	  .read = read_output },
	{ .name = "output-path",
	  .letter = 'o',
	  .newer = true,
	  .old = "output",
	  .values = "a folder",
	  .help = "the same",
	  .read = read_output },
	{ .name = "data-format",
	  .values = "csv or db",
	  .def = "csv",
	  .help = "form of the dump",
	  .read = read_format },
	{ .name = "format",
	  .newer = true,
	  .old = "data-format",
	  .values = "csv or db",
	  .help = "the same",
	  .read = read_format },
	{ .name = "device",
	  .values = "a list of npu, npu:0 to npu:31, cpu",
	  .def = "npu",
	  .help = "rows of which devices",
	  .read = read_device },
	{ .name = "collect-mode",
	  .values = "full or custom, immediate or deferred",
	  .def = "full",
	  .help = "from the start, or as the program says",
	  .read = read_mode },
	{ .name = "watch",
	  .values = "[START[:OUTPUT]],END[,full-content]",
	  .help = "contents of a block between operators",
	  .read = read_watch },
	{ .name = "log-level",
	  .values = "debug, info, warn (warning) or error",
	  .def = "info",
	  .help = "which messages are printed",
	  .read = read_log },
	{ .name = "verbose",
	  .letter = 'v',
	  .letter_now = true,
	  .newer = true,
	  .help = "as --log-level=debug",
	  .read = read_verbose },
	{ .name = "debug", .newer = true, .help = "the same", .read = read_verbose },
	{ .name = "quiet",
	  .letter = 'q',
	  .newer = true,
	  .help = "as --log-level=error",
	  .read = read_quiet },
	{ .name = "generation",
	  .ours = true,
	  .values = "seed or now",
	  .def = "seed",
	  .help = "spellings and defaults of msleaks or of msmemscope",
	  .read = read_generation },
	{ .name = "ops",
	  .ours = true,
	  .values = "a regular expression on names like aten.add.Tensor",
	  .help = "which operators of torch",
	  .read = msleaks__read_ops },
	{ .name = "extended",
	  .ours = true,
	  .help = "also rows and attributes that the vendor's tool has not",
	  .read = read_extended },
	{ .name = "exact-ranges",
	  .ours = true,
	  .help = "stop the program while its allocator is probed",
	  .read = read_exact },
	{ .name = "strict",
	  .ours = true,
	  .help = "exit with 3 if anything was lost",
	  .read = read_strict },
};

const struct msleaks_option *msleaks_option__at(size_t i)
{
	return i < MT_ARRAY_SIZE(table) ? &table[i] : NULL;
}

const struct msleaks_option *msleaks_option__find(const char *name)
{
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(table); i++)
		if (!strcmp(table[i].name, name))
			return &table[i];
	return NULL;
}

void msleaks__init(struct msleaks_opts *o)
{
	*o = (struct msleaks_opts){ .level = LEVEL_OP,
				    .events = EVENTS_ALLOC | EVENTS_LAUNCH,
				    .analysis = MSLEAKS_LEAKS,
				    .oom_top = 10,
				    .log_level = LOG_INFO };
}

void msleaks__free(struct msleaks_opts *o)
{
	free(o->inputs);
	o->inputs = NULL;
}

/* The words of V-now for its old ones; others are as good as before. */
static void tell_deprecated(const struct msleaks_option *row, const char *value)
{
	static const struct {
		const char *option, *word, *instead;
	} words[] = { { "level", "0", "op" },
		      { "level", "1", "kernel" },
		      { "log-level", "warn", "warning" } };
	const struct msleaks_option *r;
	size_t i;

	for (i = 0; i < MT_ARRAY_SIZE(words); i++)
		if (!strcmp(row->name, words[i].option) && !strcmp(value, words[i].word))
			fprintf(stderr,
				"[msmemscope] Deprecation: '--%s=%s' is deprecated, use '--%s=%s' "
				"instead.\n",
				row->name, value, row->name, words[i].instead);
	for (i = 0; (r = msleaks_option__at(i)); i++)
		if (r->old && !strcmp(r->old, row->name))
			fprintf(stderr,
				"[msmemscope] Deprecation: '--%s' is deprecated, use '--%s' "
				"instead.\n",
				row->name, r->name);
}

int msleaks__set(struct msleaks_opts *o, const struct msleaks_option *row, const char *value,
		 const char **why)
{
	int err;

	*why = "";
	err = row->read(o, value, why);
	if (!err && o->generation == MSLEAKS_NOW && value)
		tell_deprecated(row, value);
	return err;
}

void msleaks__imply(struct msleaks_opts *o)
{
	/* msleaks.md 1.2; the levels and words of the newer generation imply more. */
	if (o->events & EVENTS_ACCESS || o->analysis & (MSLEAKS_LEAKS | MSLEAKS_DECOMPOSE))
		o->events |= EVENTS_ALLOC;
	if (o->generation == MSLEAKS_NOW) {
		if (o->analysis & MSLEAKS_OOM)
			o->events |= EVENTS_ALLOC;
		if (o->analysis & (MSLEAKS_DECOMPOSE | MSLEAKS_INEFFICIENT))
			o->events |= EVENTS_ALLOC | EVENTS_ACCESS;
		if (o->analysis & MSLEAKS_INEFFICIENT)
			o->events |= EVENTS_LAUNCH;
	}
	if (!o->npus && !o->npu_slots && !o->cpu)
		o->npus = true;
	/* An explicit level wins, then verbose. */
	if (!o->log_given && o->verbose)
		o->log_level = LOG_DEBUG;
	else if (!o->log_given && o->quiet)
		o->log_level = LOG_ERROR;
}

const char *msleaks__tool(const struct msleaks_opts *o)
{
	return o->generation == MSLEAKS_NOW ? "msmemscope" : "msleaks";
}

void msleaks__error(const struct msleaks_opts *o, const char *message)
{
	fprintf(stderr, "[%s] %s: %s\n", msleaks__tool(o),
		o->generation == MSLEAKS_NOW ? "Error" : "ERROR", message);
}

const char *msleaks__output(const struct msleaks_opts *o)
{
	if (o->output)
		return o->output;
	return o->generation == MSLEAKS_NOW ? "./memscopeDumpResults" : "./leaksDumpResults";
}
