/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names: rows that unwind a file's code, symbol tables, Python code objects.
 *
 * Files and the memory of targets are hostile: sizes and offsets are checked,
 * what is malformed is an error or a name that is not known, never a crash.
 */
#ifndef MEMTAP_SYMBOL_H
#define MEMTAP_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/probe.h"

/* ==== unwind rows of a file ==== */

/* ==== names of functions ==== */

/* ==== Python ==== */

#endif
