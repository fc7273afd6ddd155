/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that compilers do not write, with what they say of themselves. */
	.text
#if defined(__aarch64__)

.macro function name
	.p2align 4
	.globl \name
	.type \name, %function
\name:
	.cfi_startproc
.endm
.macro end name
	.cfi_endproc
	.size \name, . - \name
.endm

function cwalk_site
	cbnz x2, 1f
	ret
1:	mov x2, #19 /* SIGSTOP */
	mov x8, #131 /* tgkill */
	svc #0
	ret
end cwalk_site

function cwalk_lr_only
	str x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 30, -32
	mov x9, x0
	mov x0, x1
	blr x9
	ldr x30, [sp], #32
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	ret
end cwalk_lr_only

function cwalk_split
	sub sp, sp, #96
	.cfi_def_cfa_offset 96
	stp x29, x30, [sp, #72]
	.cfi_offset 29, -24
	.cfi_offset 30, -16
	add x29, sp, #72
	mov x9, x0
	mov x0, x1
	blr x9
	ldp x29, x30, [sp, #72]
	.cfi_restore 29
	.cfi_restore 30
	add sp, sp, #96
	.cfi_def_cfa_offset 0
	ret
end cwalk_split

function cwalk_leaf_fault
	mov x9, #0
	ldr x9, [x9]
	ret
end cwalk_leaf_fault

	.section .rodata
	.globl cwalk_fault_size, cwalk_jit, cwalk_jit_after, cwalk_jit_end
	.p2align 3
cwalk_fault_size:
	.word 4
cwalk_jit:
	stp x29, x30, [sp, #-48]!
	mov x29, sp
	mov x9, x0
	mov x0, x1
	blr x9
cwalk_jit_after:
	ldp x29, x30, [sp], #48
	ret
cwalk_jit_end:

#else

.macro function name
	.p2align 4
	.globl \name
	.type \name, @function
\name:
	.cfi_startproc
.endm
.macro end name
	.cfi_endproc
	.size \name, . - \name
.endm

function cwalk_site
	nop
	test %rdx, %rdx
	jnz 1f
	ret
1:	mov $19, %edx /* SIGSTOP */
	mov $234, %eax /* tgkill */
	syscall
	ret
end cwalk_site

function cwalk_lr_only
	sub $24, %rsp
	.cfi_adjust_cfa_offset 24
	mov %rdi, %rax
	mov %rsi, %rdi
	call *%rax
	add $24, %rsp
	.cfi_adjust_cfa_offset -24
	ret
end cwalk_lr_only

function cwalk_split
	sub $40, %rsp
	.cfi_adjust_cfa_offset 40
	mov %rbp, 16(%rsp)
	.cfi_rel_offset %rbp, 16
	xor %ebp, %ebp
	mov %rdi, %rax
	mov %rsi, %rdi
	call *%rax
	mov 16(%rsp), %rbp
	.cfi_restore %rbp
	add $40, %rsp
	.cfi_adjust_cfa_offset -40
	ret
end cwalk_split

function cwalk_leaf_fault
	xor %eax, %eax
	mov (%rax), %rax
	ret
end cwalk_leaf_fault

	.section .rodata
	.globl cwalk_fault_size, cwalk_jit, cwalk_jit_after, cwalk_jit_end
	.p2align 3
cwalk_fault_size:
	.long 3
cwalk_jit:
	push %rbp
	mov %rsp, %rbp
	sub $32, %rsp
	mov %rdi, %rax
	mov %rsi, %rdi
	call *%rax
cwalk_jit_after:
	leave
	ret
cwalk_jit_end:
#endif
	.section .note.GNU-stack, "", %progbits
