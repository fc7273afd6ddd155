// SPDX-License-Identifier: Apache-2.0
/* Operators of torch: whether they are traced, and which. */
#include <errno.h>
#include <regex.h>
#include <string.h>

#include "cli/msleaks_options.h"
#include "cli/session.h"

int ops__option(struct ops_opts *o, const char *arg)
{
	char why[128];
	regex_t re;
	int err;

	o->asked = true;
	o->regex = NULL;
	if (!arg)
		return 0;
	if (!*arg)
		return -EINVAL;
	err = regcomp(&re, arg, REG_EXTENDED | REG_NOSUB);
	if (err) {
		regerror(err, &re, why, sizeof(why));
		pr_err("--ops: '%s' is no extended regular expression: %s (man 7 regex)", arg, why);
		return -EEXIST;
	}
	regfree(&re);
	o->regex = arg;
	return 0;
}

int msleaks__read_ops(struct msleaks_opts *o, const char *value, const char **why)
{
	*why = "invalid operators input.";
	return ops__option(&o->ops, value);
}

static bool starts(const struct record_opts *o)
{
	return o->level & LEVEL_OP && o->events & EVENTS_LAUNCH;
}

static bool accesses(const struct record_opts *o)
{
	return o->level & LEVEL_OP && o->events & EVENTS_ACCESS;
}

int ops__check(const struct record_opts *o)
{
	if (o->ops.asked && !starts(o) && !accesses(o)) {
		pr_err("--ops: no row of an operator is asked for: that takes --level with 0 and "
		       "--events with launch or access");
		return -EINVAL;
	}
	if (o->events & EVENTS_ACCESS && !(o->level & LEVEL_OP)) {
		pr_err("--events access: accesses are seen at operators: add 0 to --level");
		return -EINVAL;
	}
	return 0;
}

int ops__prepare(struct session *s, struct prober_opts *pr)
{
	const struct record_opts *o = &s->opts;
	bool wanted = (o->ops.asked || o->ops.quiet) && starts(o);

	pr->atb_access = accesses(o);
	pr->kernel_access = o->level & LEVEL_KERNEL && o->events & EVENTS_ACCESS;
	if (!wanted && !accesses(o))
		return 0;
	if (!features__has(&s->features, FEAT_MULTI) && !o->ops.regex) {
		log__print(o->ops.quiet ? LOG_WARN : LOG_ERROR,
			   "operators of torch are not traced: this kernel has no uprobe_multi "
			   "(6.6), without which at most %d can be probed; choose them with "
			   "--ops=REGEX",
			   OPS_WITHOUT_MULTI);
		return o->ops.quiet ? 0 : -EOPNOTSUPP;
	}
	pr->classes |= CLASS_OPS;
	pr->ops = o->ops.regex;
	/* An access has the stack of its operator's start. */
	pr->op_rows = starts(o) || o->stacks.python;
	pr->access = accesses(o);
	/* V-seed has none of lists. */
	pr->lists = !o->vendor || o->newer;
	catalogue__use(pr->classes);
	return 0;
}

int ops__attached(struct session *s)
{
	size_t n = prober__ops_refused(s->prober);

	if (!n)
		return 0;
	pr_err("--ops=%s names %zu operators: this kernel has no uprobe_multi (6.6), without which "
	       "at most %d can be probed; name fewer",
	       s->opts.ops.regex ? s->opts.ops.regex : "", n, OPS_WITHOUT_MULTI);
	return -EOPNOTSUPP;
}
