// SPDX-License-Identifier: Apache-2.0
/* Graph capture as events see it: a stream that waits for a captured stream's event is captured
 * too. */
#ifndef SIM_ACL_CAPTURE_H
#define SIM_ACL_CAPTURE_H

#include <stdint.h>

/* The capture that a stream is in; 0: none. */
uint64_t capture__of(void *stm);

/* The stream is in this capture from now on, if that one still goes on. */
void capture__join(void *stm, uint64_t id);

#endif
