// SPDX-License-Identifier: Apache-2.0
// Labels as assembly has them: nested, without a size, with a gap behind; the same on both machines.
#ifdef __aarch64__
#define TYPE %function
#define FILL(n) .fill (n) / 4, 4, 0xd503201f
#else
#define TYPE @function
#define FILL(n) .fill (n), 1, 0x90
#endif
	.text
	.p2align 6
	.globl	outer_fn
	.type	outer_fn, TYPE
outer_fn:
	FILL(16)
untyped_label:
	FILL(16)
	.type	inner_fn, TYPE
inner_fn:
	FILL(16)
	.size	inner_fn, 16
	FILL(16)
	.size	outer_fn, 64

	FILL(32)			// behind the last byte: nobody's

	.globl	sized_a
	.type	sized_a, TYPE
	.weak	a_weak
	.type	a_weak, TYPE
	.type	a, TYPE
	.globl	e			// no code of its own: unreachable
	.type	e, TYPE
e:
a:
a_weak:
sized_a:
	FILL(32)
	.size	sized_a, 32
	.size	a_weak, 32
	.size	a, 32

	.globl	unsized_fn
	.type	unsized_fn, TYPE
unsized_fn:
	FILL(48)
	.globl	plain_label		// no type: code all the same
plain_label:
	FILL(32)
	.globl	last_fn
	.type	last_fn, TYPE
last_fn:
	FILL(16)
	.size	last_fn, 16
	FILL(16)			// behind the last byte of all

	.section .text.other, "ax"
	.globl	versioned_
	.type	versioned_, TYPE
versioned_:
	FILL(16)
	.size	versioned_, 16
	.symver	versioned_, versioned@VER_1
	.section .note.GNU-stack, "", %progbits
