/* SPDX-License-Identifier: Apache-2.0 */
/* `memtap probes FILE --derive`: what can be derived from one library. */
#ifndef MEMTAP_CLI_PROBES_FILE_H
#define MEMTAP_CLI_PROBES_FILE_H

#include <stdbool.h>
#include <stdio.h>

/* Text (one `key value` a line) or one JSON object. 0 or -errno; messages are printed. */
int probes_file__derive(const char *path, bool json, FILE *out);

#endif
