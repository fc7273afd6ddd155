// SPDX-License-Identifier: Apache-2.0
/* The recorder's end of `memtap ctl`: a socket that nobody can hold it up by. */
#include "cli/control.h"

#include <bpf/bpf.h>
#include <cJSON.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/scan.h"
#include "cli/session.h"

#define MAX_CLIENTS 16
#define MAX_WAITING 256 /* requests that wait for the time of their events */
#define IDLE_NS 30000000000ULL /* a client that says nothing for so long makes room */
#define PER_TICK 32 /* requests */

struct client {
	int fd;
	uint64_t seen; /* boot time */
	unsigned int serial; /* tells it from an earlier one in its place */
	bool ended; /* it sends no more */
	size_t len;
	char line[CONTROL_LINE];
};

struct request {
	uint64_t time; /* boot time at which it came */
	unsigned int what; /* enum mt_ask; MT_ASK_NONE: flush */
	uint32_t tgid; /* 0: all */
	size_t client; /* who waits for the answer; MAX_CLIENTS: nobody */
	unsigned int serial;
	char text[CONTROL_TEXT + 1];
};

struct control {
	int dir, listener;
	char name[32];
	struct client clients[MAX_CLIENTS];
	size_t turn; /* who is read first */
	unsigned int serials;
	struct request *waiting; /* in the order of time */
	size_t n_waiting;
};

static const struct {
	const char *word;
	unsigned int what;
	bool text; /* takes one */
	bool waits; /* is answered when it has taken effect */
} words[] = {
	{ "start", MT_ASK_START, false, false },     { "stop", MT_ASK_STOP, false, false },
	{ "step", MT_ASK_STEP, false, false },	     { "mark", MT_ASK_MARK, true, false },
	{ "snapshot", MT_ASK_SNAPSHOT, true, true }, { "flush", MT_ASK_NONE, false, true },
};

/* ---- answers ---- */

static void drop(struct client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->len = 0;
	c->ended = false;
}

/* One line; a client that does not take it is dropped. Takes obj. */
static void answer(struct client *c, cJSON *obj)
{
	char *text = obj ? cJSON_PrintUnformatted(obj) : NULL;
	size_t n = text ? strlen(text) : 0;

	if (text && c->fd >= 0) {
		text[n] = '\n'; /* over the NUL: its length is known */
		if (send(c->fd, text, n + 1, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)n + 1)
			drop(c);
	} else {
		drop(c);
	}
	cJSON_free(text);
	cJSON_Delete(obj);
}

static cJSON *result(bool ok)
{
	cJSON *obj = cJSON_CreateObject();

	if (obj)
		cJSON_AddBoolToObject(obj, "ok", ok);
	return obj;
}

static void refuse(struct client *c, const char *why)
{
	cJSON *obj = result(false);

	if (obj)
		cJSON_AddStringToObject(obj, "error", why);
	answer(c, obj);
}

/* ---- requests ---- */

static size_t count_targets(const struct session *s)
{
	uint32_t key, *prev = NULL;
	size_t n = 0;

	while (n < 1u << 20 && !bpf_map_get_next_key(s->targets_fd, prev, &key)) {
		prev = &key;
		n++;
	}
	return n;
}

static void tell_status(struct session *s, struct client *c)
{
	cJSON *obj = result(true);
	uint64_t rows, unwritten, bytes;
	char dir[PATH_MAX];

	if (!realpath(s->opts.dir, dir))
		snprintf(dir, sizeof(dir), "%s", s->opts.dir);
	if (obj) {
		out__counts(s->out, &rows, &unwritten, &bytes);
		cJSON_AddNumberToObject(obj, "pid", (double)getpid());
		cJSON_AddNumberToObject(obj, "processes", (double)count_targets(s));
		cJSON_AddBoolToObject(obj, "paused", model__all_paused(s->model));
		cJSON_AddNumberToObject(obj, "rows", (double)rows);
		cJSON_AddNumberToObject(obj, "waiting", (double)out__waiting(s->out));
		cJSON_AddStringToObject(obj, "dir", dir);
	}
	answer(c, obj);
}

static void done(struct client *c, size_t processes, uint64_t real)
{
	cJSON *obj = result(true);
	char ns[24];

	if (obj) {
		cJSON_AddNumberToObject(obj, "processes", (double)processes);
		/* Nanoseconds do not fit into a number of JSON. */
		snprintf(ns, sizeof(ns), "%llu", (unsigned long long)real);
		cJSON_AddStringToObject(obj, "time", ns);
	}
	answer(c, obj);
}

static void enqueue(struct session *s, struct client *c, size_t which, bool waits, uint32_t tgid,
		    const char *text)
{
	struct control *k = s->control;
	struct request *r;

	if (k->n_waiting == MAX_WAITING) {
		refuse(c, "too many requests wait; try again in a second");
		return;
	}
	r = &k->waiting[k->n_waiting++];
	*r = (struct request){ .time = clock__boot(),
			       .what = words[which].what,
			       .tgid = tgid,
			       .client = waits ? (size_t)(c - k->clients) : MAX_CLIENTS,
			       .serial = c->serial };
	snprintf(r->text, sizeof(r->text), "%s", text);
	if (r->what == MT_ASK_START)
		asked__resume(s);
	if (!waits)
		done(c, tgid ? 1 : count_targets(s), r->time + (uint64_t)s->boot_to_real);
}

static void one_line(struct session *s, struct client *c, char *line)
{
	unsigned long pid = 0;
	struct mt_target t;
	char *text, *end;
	size_t i;

	if (!strncmp(line, "pid=", 4)) {
		pid = strtoul(line + 4, &end, 10);
		if (end == line + 4 || *end != ' ' || !pid || pid > 1u << 22) {
			refuse(c, "pid= wants the number of a process");
			return;
		}
		line = end + 1;
		if (!target__is(s, (pid_t)pid, &t)) {
			refuse(c, "that process is not traced");
			return;
		}
	}
	text = strchr(line, ' ');
	if (text)
		*text++ = '\0';
	if (!strcmp(line, "status")) {
		if (text)
			refuse(c, "this request takes no text");
		else
			tell_status(s, c);
		return;
	}
	for (i = 0; i < MT_ARRAY_SIZE(words); i++) {
		if (strcmp(line, words[i].word) != 0)
			continue;
		if (text && !words[i].text)
			refuse(c, "this request takes no text");
		else if (words[i].what == MT_ASK_MARK && (!text || !*text))
			refuse(c, "mark wants a text");
		else if (words[i].what == MT_ASK_MARK && text__is_formula(text, strlen(text)))
			refuse(c, "the text begins as a formula does, which tables would run: the "
				  "row would have no name");
		else if (text && strlen(text) > CONTROL_TEXT)
			refuse(c, "the text is longer than 254 bytes");
		else
			enqueue(s, c, i, words[i].waits, (uint32_t)pid, text ? text : "");
		return;
	}
	refuse(c,
	       "no such request; there are start, stop, step, mark TEXT, snapshot [NAME], flush, "
	       "status");
}

void control__due(struct session *s, uint64_t time)
{
	struct control *k = s->control;
	size_t i;
	int err;

	for (i = 0; k && i < k->n_waiting && k->waiting[i].time <= time; i++) {
		struct request *r = &k->waiting[i];
		struct client *c = r->client < MAX_CLIENTS ? &k->clients[r->client] : NULL;
		size_t n = 0;

		if (r->what == MT_ASK_NONE)
			err = out__flush(s->out);
		else
			err = 0, n = model__ask(s->model, r->what, r->tgid, r->text, r->time);
		if (!c || c->fd < 0 || c->serial != r->serial)
			continue;
		if (err)
			refuse(c, "the files cannot be written");
		else if (r->what == MT_ASK_NONE)
			tell_status(s, c);
		else
			done(c, n, r->time + (uint64_t)s->boot_to_real);
	}
	if (!i)
		return;
	k->n_waiting -= i;
	memmove(k->waiting, k->waiting + i, k->n_waiting * sizeof(*k->waiting));
}

bool control__starts(const struct session *s)
{
	size_t i;

	for (i = 0; s->control && i < s->control->n_waiting; i++)
		if (s->control->waiting[i].what == MT_ASK_START)
			return true;
	return false;
}

/* ---- clients ---- */

/* A free place, else that of whoever has been silent for long; NULL. */
static struct client *place(struct control *k)
{
	struct client *oldest = NULL;
	uint64_t now = clock__boot();
	size_t i;

	for (i = 0; i < MAX_CLIENTS; i++) {
		struct client *c = &k->clients[i];

		if (c->fd < 0)
			return c;
		if (!oldest || c->seen < oldest->seen)
			oldest = c;
	}
	if (now - oldest->seen < IDLE_NS / MAX_CLIENTS)
		return NULL;
	drop(oldest);
	return oldest;
}

static void accept_one(struct control *k, int fd)
{
	struct client turned_away = { .fd = fd };
	struct client *c = place(k);
	struct ucred peer;
	socklen_t n = sizeof(peer);

	/* The folder keeps others out; this does so where somebody has opened it up. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) ||
	    (peer.uid != 0 && peer.uid != geteuid())) {
		refuse(&turned_away, "only root and the user who records may control it");
		drop(&turned_away);
		return;
	}
	if (!c) {
		refuse(&turned_away, "too many clients; try again in a second");
		drop(&turned_away);
		return;
	}
	c->fd = fd;
	c->len = 0;
	c->ended = false;
	c->seen = clock__boot();
	c->serial = ++k->serials;
}

/* Does an answer that it waits for come later? */
static bool awaits(const struct control *k, const struct client *c)
{
	size_t i;

	for (i = 0; i < k->n_waiting; i++)
		if (k->waiting[i].client == (size_t)(c - k->clients) &&
		    k->waiting[i].serial == c->serial)
			return true;
	return false;
}

/* What it has sent, as far as there is room. */
static void fill(struct client *c)
{
	ssize_t n;

	if (c->ended || c->len == sizeof(c->line))
		return;
	n = recv(c->fd, c->line + c->len, sizeof(c->line) - c->len, MSG_DONTWAIT);
	if (n > 0) {
		c->len += (size_t)n;
		c->seen = clock__boot();
	} else if (!n) {
		c->ended = true;
	} else if (errno != EAGAIN && errno != EINTR) {
		drop(c);
	}
}

/* The lines that are whole, also those that an earlier tick had no time for. */
static void read_client(struct session *s, struct client *c, unsigned int *left)
{
	char *end = NULL;

	fill(c);
	while (c->fd >= 0 && (end = memchr(c->line, '\n', c->len)) && *left) {
		size_t used = (size_t)(end - c->line) + 1;

		*end = '\0';
		--*left;
		if (memchr(c->line, '\0', used - 1))
			refuse(c, "a request is text");
		else
			one_line(s, c, c->line);
		if (c->fd < 0)
			return;
		c->len -= used;
		memmove(c->line, c->line + used, c->len);
	}
	if (c->fd < 0 || end)
		return;
	if (c->len == sizeof(c->line)) {
		refuse(c, "a request is one line of at most 4096 bytes");
		drop(c);
	} else if (c->ended && !awaits(s->control, c)) {
		drop(c);
	}
}

void control__tick(struct session *s)
{
	struct control *k = s->control;
	unsigned int left = PER_TICK;
	size_t i;
	int fd, n;

	if (!k)
		return;
	for (n = 0; n < MAX_CLIENTS; n++) {
		fd = accept4(k->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			break;
		accept_one(k, fd);
	}
	/* Another first each time: one that asks without end leaves room for others. */
	k->turn++;
	for (i = 0; i < MAX_CLIENTS && left; i++) {
		struct client *c = &k->clients[(k->turn + i) % MAX_CLIENTS];

		if (c->fd >= 0)
			read_client(s, c, &left);
	}
}

/* ---- the socket ---- */

static int open_socket(struct control *k, char path[PATH_MAX])
{
	int err = -ENOENT;
	unsigned int i;

	for (i = 0; i < CONTROL_DIRS - 1; i++) {
		if (!control_dir__path(i, geteuid(), path))
			continue;
		k->dir = control_dir__open(path, true);
		err = k->dir;
		if (k->dir >= 0) {
			control_dir__sweep(k->dir);
			k->listener = control_dir__listen(k->dir, k->name, MAX_CLIENTS);
			err = k->listener;
		}
		if (err >= 0)
			return 0;
		if (k->dir >= 0)
			close(k->dir);
		k->dir = -1;
		/* In another folder nobody would find it behind that one. */
		if (err == -EADDRINUSE)
			break;
	}
	return err;
}

void control__open(struct session *s)
{
	struct control *k = calloc(1, sizeof(*k));
	char path[PATH_MAX];
	size_t i;
	int err = -ENOMEM;

	if (k)
		k->waiting = calloc(MAX_WAITING, sizeof(*k->waiting));
	if (k && k->waiting) {
		k->dir = k->listener = -1;
		for (i = 0; i < MAX_CLIENTS; i++)
			k->clients[i].fd = -1;
		control_dir__name(getpid(), k->name);
		err = open_socket(k, path);
	}
	if (err) {
		pr_warn("no socket for memtap ctl: %s: %s; the recording cannot be controlled from "
			"outside%s",
			err == -ENOMEM ? "memory" : path,
			err == -EADDRINUSE ? "a recorder of another container has our number there"
					   : strerror(-err),
			s->opts.paused ? ", only by the program itself" : "");
		if (k)
			free(k->waiting);
		free(k);
		return;
	}
	s->control = k;
	if (s->opts.paused)
		pr_info("nothing is collected until the program asks for it, or: memtap ctl %d "
			"start",
			(int)getpid());
}

void control__close(struct session *s)
{
	struct control *k = s->control;
	size_t i;

	if (!k)
		return;
	control__due(s, UINT64_MAX);
	unlinkat(k->dir, k->name, 0);
	for (i = 0; i < MAX_CLIENTS; i++)
		drop(&k->clients[i]);
	close(k->listener);
	close(k->dir);
	free(k->waiting);
	free(k);
	s->control = NULL;
}
