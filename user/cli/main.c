// SPDX-License-Identifier: Apache-2.0
/* memtap: finds the command and runs it. */
#include <stdio.h>

int main(void)
{
	return 0;
}
