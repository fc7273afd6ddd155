// SPDX-License-Identifier: Apache-2.0
/* sim-train: a training-shaped load on the simulated device libraries, with or without ground
 * truth. */
#include "sim.h"
#include "../truth/sim_truth.h"

#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct options opt = {
	.devices = 1,
	.threads = 1,
	.seed = 1,
	.layout = "c",
	.workspace = 65536,
	.layers = 8,
};
volatile sig_atomic_t stop;

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static void on_signal(int sig)
{
	stop = 1;
}

enum {
	O_SECONDS = 256,
	O_STEPS,
	O_DEVICES,
	O_THREADS,
	O_RANKS,
	O_SEED,
	O_RATE,
	O_TRUTH,
	O_LATE,
	O_LAYOUT,
	O_WORKSPACE,
	O_EMPTY,
	O_LAYERS,
	O_HELP
};

static const struct option longopts[] = {
	{ "seconds", 1, NULL, O_SECONDS },
	{ "steps", 1, NULL, O_STEPS },
	{ "devices", 1, NULL, O_DEVICES },
	{ "threads", 1, NULL, O_THREADS },
	{ "ranks", 1, NULL, O_RANKS },
	{ "seed", 1, NULL, O_SEED },
	{ "rate", 1, NULL, O_RATE },
	{ "truth", 1, NULL, O_TRUTH },
	{ "late-dlopen", 1, NULL, O_LATE },
	{ "layout", 1, NULL, O_LAYOUT },
	{ "workspace", 1, NULL, O_WORKSPACE },
	{ "empty-cache", 1, NULL, O_EMPTY },
	{ "layers", 1, NULL, O_LAYERS },
	{ "leak", 0, &opt.leak, 1 },
	{ "mindspore", 0, &opt.mindspore, 1 },
	{ "host-malloc", 0, &opt.host_malloc, 1 },
	{ "no-torch", 0, &opt.no_torch, 1 },
	{ "oom", 0, &opt.oom, 1 },
	{ "exceptions", 0, &opt.exceptions, 1 },
	{ "wait", 0, &opt.wait, 1 },
	{ "quiet", 0, &opt.quiet, 1 },
	{ "load", 0, &opt.load, 1 },
	{ "exec", 0, &opt.exec, 1 },
	{ "atb", 0, &opt.atb, 1 },
	{ "hccl", 0, &opt.hccl, 1 },
	{ "profiling", 0, &opt.profiling, 1 },
	{ "help", 0, NULL, O_HELP },
	{ 0 },
};

static void usage(FILE *f)
{
	fputs("usage: sim-train [--seconds N | --steps N] [--devices N] [--threads N] [--ranks N]\n"
	      "  [--layout a|b|b_rc2|c|c_symtab|c10|none|opaque] [--no-torch] [--mindspore] [--load] [--layers N]\n"
	      "  [--workspace BYTES] [--empty-cache STEPS] [--leak] [--oom] [--exceptions] "
	      "[--atb]\n"
	      "  [--hccl] [--host-malloc] [--profiling] [--late-dlopen SECONDS] [--exec]\n"
	      "  [--seed N] [--rate OPS] [--truth FILE] [--wait] [--quiet]\n",
	      f);
}

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", longopts, NULL)) != -1) {
		switch (c) {
		case 0:
			break;
		case O_SECONDS:
			opt.seconds = strtod(optarg, NULL);
			break;
		case O_STEPS:
			opt.steps = strtoull(optarg, NULL, 0);
			break;
		case O_DEVICES:
			opt.devices = atoi(optarg);
			break;
		case O_THREADS:
			opt.threads = atoi(optarg);
			break;
		case O_RANKS:
			opt.ranks = atoi(optarg);
			break;
		case O_SEED:
			opt.seed = strtoull(optarg, NULL, 0);
			break;
		case O_RATE:
			opt.rate = strtod(optarg, NULL);
			break;
		case O_TRUTH:
			opt.truth = optarg;
			break;
		case O_LATE:
			opt.late_dlopen = strtod(optarg, NULL);
			break;
		case O_LAYOUT:
			opt.layout = optarg;
			break;
		case O_WORKSPACE:
			opt.workspace = strtoull(optarg, NULL, 0);
			break;
		case O_EMPTY:
			opt.empty_cache = strtoull(optarg, NULL, 0);
			break;
		case O_LAYERS:
			opt.layers = atoi(optarg);
			break;
		case O_HELP:
			usage(stdout);
			exit(0);
		default:
			usage(stderr);
			exit(2);
		}
	}
	if (opt.seconds <= 0 && !opt.steps)
		opt.steps = 10;
	if (opt.devices < 1 || opt.threads < 1 || opt.threads > 1024 || opt.layers < 1 ||
	    opt.layers > 64) {
		usage(stderr);
		exit(2);
	}
}

/* The loader reads LD_LIBRARY_PATH at start only, so the program starts itself once more. */
static void with_library_path(char **argv)
{
	char exe[PATH_MAX], path[4 * PATH_MAX];
	const char *old = getenv("LD_LIBRARY_PATH");
	const char *dir = getenv("SIM_ROOT");
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n <= 0 || getenv("SIM_TRAIN_STARTED"))
		return;
	exe[n] = '\0';
	if (!dir) {
		static char copy[PATH_MAX];

		strcpy(copy, exe);
		dir = dirname(copy);
	}
	snprintf(path, sizeof(path),
		 "%s%s%s/cann/lib64:%s/torch/lib:%s/torch_npu_%s/lib:%s/mindspore/lib",
		 old && old[0] ? old : "", old && old[0] ? ":" : "", dir, dir, dir, opt.layout,
		 dir);
	setenv("LD_LIBRARY_PATH", path, 1);
	setenv("SIM_TRAIN_STARTED", "1", 1);
	if (opt.truth)
		setenv("SIM_TRUTH", opt.truth, 1);
	execv(exe, argv);
	perror("sim-train: exec");
	exit(2);
}

static void pace(struct worker *w)
{
	double due = (double)w->ops / opt.rate, past = (double)(now_ns() - w->t_start) / 1e9;

	if (due > past) {
		struct timespec ts = { (time_t)(due - past),
				       (long)((due - past - (double)(time_t)(due - past)) * 1e9) };

		while (!stop && nanosleep(&ts, &ts) && errno == EINTR)
			;
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t end = opt.seconds > 0 ? now_ns() + (uint64_t)(opt.seconds * 1e9) : 0;

	w->t_start = now_ns();
	w->rng = opt.seed * 1000003 + (uint64_t)w->rank * 1009 + (uint64_t)w->id;
	if (lib.aclrtSetDevice(w->device) || lib.aclrtCreateStream(&w->stream) ||
	    lib.aclrtCreateStream(&w->side)) {
		w->failed++;
		return NULL;
	}
	lib.aclrtStreamGetId(w->stream, &w->stream_id);
	if (!opt.no_torch && !opt.mindspore)
		torch_setup(w);
	while (!stop && (opt.steps ? w->steps < opt.steps : now_ns() < end)) {
		if (opt.host_malloc && w->steps % 5 == 0)
			host_section(w);
		if (opt.mindspore)
			ms_step(w);
		else if (opt.no_torch)
			acl_step(w);
		else if (opt.load)
			torch_load(w);
		else
			torch_step(w);
		if (opt.rate > 0)
			pace(w);
	}
	if (!opt.no_torch && !opt.mindspore)
		torch_finish(w);
	lib.aclrtSynchronizeStream(w->stream);
	lib.aclrtDestroyStream(w->side);
	lib.aclrtDestroyStream(w->stream);
	return NULL;
}

static int run_rank(int rank)
{
	struct worker *w = calloc((size_t)opt.threads, sizeof(*w));
	pthread_t *t = calloc((size_t)opt.threads, sizeof(*t));
	uint64_t t0, ops = 0, steps = 0, oom = 0, thrown = 0;
	int i, failed = 0;
	uint32_t ndev = 0;
	double s;

	if (opt.late_dlopen > 0) {
		struct timespec ts = { (time_t)opt.late_dlopen,
				       (long)((opt.late_dlopen - (double)(time_t)opt.late_dlopen) *
					      1e9) };

		nanosleep(&ts, NULL);
	}
	libs_load();
	if (lib.aclInit(NULL))
		return 1;
	lib.aclrtGetDeviceCount(&ndev);
	if (!ndev) {
		fprintf(stderr, "sim-train: no device is visible\n");
		return 1;
	}
	if (!opt.no_torch) {
		lib.npu_init((int)ndev);
		if (opt.profiling)
			lib.npu_profiling(1);
	}
	if (opt.mindspore && lib.ms_init((int)((uint32_t)rank % ndev), getenv("MS_ALLOC_CONF")))
		return 1;
	launch_setup();
	t0 = now_ns();
	for (i = 0; i < opt.threads; i++) {
		w[i].id = i;
		w[i].rank = rank;
		w[i].device = (rank + i) % opt.devices % (int)ndev;
		if (i && pthread_create(&t[i], NULL, work, &w[i]))
			return 1;
	}
	work(&w[0]);
	for (i = 1; i < opt.threads; i++)
		pthread_join(t[i], NULL);
	s = (double)(now_ns() - t0) / 1e9;
	for (i = 0; i < opt.threads; i++) {
		ops += w[i].ops;
		steps += w[i].steps;
		oom += w[i].oom;
		thrown += w[i].thrown;
		failed += w[i].failed;
	}
	if (!opt.quiet) {
		printf("rank %d pid %d: %llu steps, %llu allocator operations in %.3f s (%.0f/s), "
		       "%llu out of memory, %llu exceptions, %d failures\n",
		       rank, (int)getpid(), (unsigned long long)steps, (unsigned long long)ops, s,
		       (double)ops / s, (unsigned long long)oom, (unsigned long long)thrown,
		       failed);
		fflush(stdout);
	}
	lib.aclFinalize();
	free(w);
	free(t);
	return failed ? 1 : 0;
}

static void line_from_stdin(void)
{
	char buf[256];

	if (!fgets(buf, sizeof(buf), stdin))
		return;
}

static int run_ranks(void)
{
	int i, bad = 0, status;

	for (i = 0; i < opt.ranks; i++) {
		pid_t p;

		fflush(stdout);
		p = fork();
		if (p < 0)
			return 1;
		if (!p) {
			int rc = run_rank(i);

			/* Every second one leaves without running the exit handlers. */
			if (i & 1) {
				fflush(stdout);
				lib.truth_flush();
				_exit(rc);
			}
			exit(rc);
		}
		printf("RANK %d %d\n", i, (int)p);
		fflush(stdout);
	}
	while (wait(&status) > 0 || errno == EINTR)
		bad |= !WIFEXITED(status) || WEXITSTATUS(status);
	return bad;
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_signal };
	int rc, again = getenv("SIM_TRAIN_AGAIN") != NULL;

	parse(argc, argv);
	with_library_path(argv);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	libs_early();
	if (!again) {
		printf("READY %d\n", (int)getpid());
		fflush(stdout);
		if (opt.wait)
			line_from_stdin();
	}
	rc = opt.ranks > 0 ? run_ranks() : run_rank(0);
	if (opt.exec && !again) {
		/* The same program once more in the same process. */
		setenv("SIM_TRAIN_AGAIN", "1", 1);
		if (*lib.truth_enabled) {
			struct sim_truth_rec r = {
				.fn = "exec", .t0 = now_ns(), .t1 = now_ns(), .has = SIM_T_NORET
			};

			lib.truth_put(&r);
		}
		lib.truth_flush();
		fflush(stdout);
		execv("/proc/self/exe", argv);
		return 1;
	}
	printf("DONE\n");
	fflush(stdout);
	if (opt.wait)
		line_from_stdin();
	return rc;
}
