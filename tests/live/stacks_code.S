// SPDX-License-Identifier: Apache-2.0
/*
 * Functions that nothing describes: with_record keeps a frame record as a compiler with frame
 * pointers would, without_record only moves the stack pointer.
 */
	.text
#if defined(__x86_64__)
	.globl with_record
	.type with_record, @function
with_record:
	push %rbp
	mov %rsp, %rbp
	sub $48, %rsp
	mov %rdi, %rax
	mov %rsi, %rdi
	call *%rax
	mov %rbp, %rsp
	pop %rbp
	ret
	.size with_record, . - with_record

	.globl without_record
	.type without_record, @function
without_record:
	sub $56, %rsp
	mov %rdi, %rax
	mov %rsi, %rdi
	call *%rax
	add $56, %rsp
	ret
	.size without_record, . - without_record
#elif defined(__aarch64__)
	.globl with_record
	.type with_record, %function
with_record:
	stp x29, x30, [sp, #-64]!
	mov x29, sp
	mov x2, x0
	mov x0, x1
	blr x2
	ldp x29, x30, [sp], #64
	ret
	.size with_record, . - with_record

	.globl without_record
	.type without_record, %function
without_record:
	str x30, [sp, #-64]!
	mov x2, x0
	mov x0, x1
	blr x2
	ldr x30, [sp], #64
	ret
	.size without_record, . - without_record
#endif
	.section .note.GNU-stack, "", %progbits
