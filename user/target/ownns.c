// SPDX-License-Identifier: Apache-2.0
/* The namespaces that memtap itself runs in: whose numbers and rights it has. */
#include <sys/stat.h>

#include "target/target.h"

/* Initial namespaces have fixed numbers: include/linux/proc_ns.h. */
#define PROC_PID_INIT_INO 0xEFFFFFFCU
#define PROC_USER_INIT_INO 0xEFFFFFFDU

uint32_t pidns__own(void)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) || st.st_ino == PROC_PID_INIT_INO)
		return 0;
	return (uint32_t)st.st_ino;
}

bool userns__is_initial(void)
{
	struct stat st;

	return stat("/proc/self/ns/user", &st) || st.st_ino == PROC_USER_INIT_INO;
}
