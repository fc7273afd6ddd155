// SPDX-License-Identifier: Apache-2.0
/* Machine code that tells where a thread has things: pthread_self, a getter of a variable. */
#include "symbol/python.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "probe/elf.h"

/* mrs x, tpidr_el0; then sub or add of constants to it; ret. */
int py_slot__self_a64(const uint8_t *code, size_t n, int32_t *self)
{
	int64_t sum = 0;
	uint32_t reg = 32;
	size_t i;

	for (i = 0; i + 4 <= n && i < 32; i += 4) {
		uint32_t in = rd32(code + i), imm = in >> 10 & 0xfff;

		if ((in & 0xffffffe0) == 0xd53bd040) {
			reg = in & 31;
		} else if ((in & 0xbf800000) == 0x91000000 || (in & 0xbf800000) == 0x11000000) {
			/* add, sub (immediate), 64 and 32 bits told apart by bit 31 */
			if (reg != (in >> 5 & 31) || !(in >> 31))
				return -EINVAL;
			if (in & 1u << 22)
				imm <<= 12;
			sum += in & 1u << 30 ? -(int64_t)imm : (int64_t)imm;
			reg = in & 31;
		} else if (in == 0xd65f03c0) {
			if (reg != 0)
				return -EINVAL;
			*self = (int32_t)sum;
			return 0;
		} else if ((in & 0xfffff01f) != 0xd503201f) { /* hints: bti, paciasp … */
			return -EINVAL;
		}
	}
	return -EINVAL;
}

static int tls_x86(const uint8_t *p, size_t n, int32_t *off)
{
	static const uint8_t endbr[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	static const uint8_t load[] = { 0x64, 0x48, 0x8b, 0x04, 0x25 }; /* mov %fs:off, %rax */

	if (n >= 4 && !memcmp(p, endbr, 4)) {
		p += 4;
		n -= 4;
	}
	if (n < 10 || memcmp(p, load, 5) != 0 || p[9] != 0xc3)
		return -EINVAL;
	*off = (int32_t)rd32(p + 5);
	return 0;
}

/* mrs x, tpidr_el0; adds; ldr x0, [x, #imm]; ret. */
static int tls_a64(const uint8_t *p, size_t n, int32_t *off)
{
	uint8_t copy[32];
	size_t i;

	for (i = 0; i + 8 <= n && i + 8 <= sizeof(copy); i += 4) {
		uint32_t in = rd32(p + i), ret = 0xd65f03c0;
		int32_t base;

		if ((in & 0xffc0001f) != 0xf9400000) /* ldr x0, [xN, #imm] */
			continue;
		if (rd32(p + i + 4) != ret)
			return -EINVAL;
		/* What stands before it makes xN: as if it were returned in x0. */
		memcpy(copy, p, i);
		memcpy(copy + i, &ret, 4);
		if ((in >> 5 & 31) != 0 || py_slot__self_a64(copy, i + 4, &base))
			return -EINVAL;
		*off = base + (int32_t)(in >> 10 & 0xfff) * 8;
		return 0;
	}
	return -EINVAL;
}

int py_slot__tls(int machine, const uint8_t *code, size_t n, int32_t *off)
{
	return machine == EM_X86_64 ? tls_x86(code, n, off) : tls_a64(code, n, off);
}
