// SPDX-License-Identifier: Apache-2.0
/* Signals that end a recording: read, not handled; the second one ends memtap. */
#include "cli/session.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void stop_signals(sigset_t *set)
{
	struct sigaction sa;

	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	/* nohup has it ignored; a blocked signal would be queued all the same */
	if (!sigaction(SIGHUP, NULL, &sa) && sa.sa_handler != SIG_IGN)
		sigaddset(set, SIGHUP);
}

int session__catch_signals(struct session *s)
{
	sigset_t set;

	stop_signals(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signals < 0 ? -errno : 0;
}

static volatile sig_atomic_t asked; /* to end, by a signal */

/* Behind the loop. Nothing but write(2) may be called here. */
static void on_signal(int sig)
{
	static const char text[] = "memtap: aborted by a second signal; memtap recover DIR "
				   "finishes what was written\n";
	ssize_t n;

	/* The first one asks for what is being done: the recording has ended by itself. */
	if (!asked) {
		asked = 1;
		return;
	}
	n = write(STDERR_FILENO, text, sizeof(text) - 1);
	(void)n;
	signal(sig, SIG_DFL);
	raise(sig); /* ends us behind the return */
}

void session__allow_abort(void)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	sigset_t set;

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

bool session__interrupted(struct session *s)
{
	struct signalfd_siginfo si;

	if (!s->stopping && read(s->signals, &si, sizeof(si)) == sizeof(si)) {
		s->stopping = true;
		asked = 1;
		session__allow_abort();
	}
	return s->stopping;
}
