/* SPDX-License-Identifier: Apache-2.0 */
/* The commands, and what they share. */
#ifndef MEMTAP_CLI_H
#define MEMTAP_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Exit status of every command (man memtap, EXIT STATUS). */
#define EXIT_OK 0
#define EXIT_FAIL 1
#define EXIT_USAGE 2
#define EXIT_INCOMPLETE 3 /* ran, but data is missing, and --strict was given */

int cmd_record(int argc, char **argv);
int cmd_probes(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_recover(int argc, char **argv);
int cmd_leaks(int argc, char **argv);
int cmd_gap(int argc, char **argv);
int cmd_inefficient(int argc, char **argv);
int cmd_ctl(int argc, char **argv);
int cmd_watch(int argc, char **argv);
int cmd_cut(int argc, char **argv);
int cmd_decompose(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_msleaks(int argc, char **argv);
/* The same, called by its own name. */
int msleaks__main(int argc, char **argv);

/* cmd_compare() says what it wrote in the vendor's words, on standard output. */
void compare__tell_as(const char *tool);
/* Is this the name of the vendor's tool, in one of its generations? */
bool cli__is_vendor(const char *argv0);

/* "Try 'memtap CMD --help'." on stderr; returns EXIT_USAGE. */
int cli__usage_error(const char *cmd);
/* Size with suffix K, M, G (1024): 0 or -EINVAL. */
int cli__size(const char *text, uint64_t *v);
/* A path without control characters and broken UTF-8, each as ?; ring of buffers. */
const char *cli__text(const char *path);
/* "1.5 GiB"; static ring of buffers, for one printf. */
const char *cli__bytes(uint64_t v);

#endif
