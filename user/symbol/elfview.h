/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of user/symbol: sections of an ELF file that may be no image to run,
 * like a separate debug file or what .gnu_debugdata holds.
 *
 * The bytes may change while they are read (a mapped file): who uses them
 * copies what it has checked, and never trusts a NUL it has seen before.
 */
#ifndef MEMTAP_SYMBOL_ELFVIEW_H
#define MEMTAP_SYMBOL_ELFVIEW_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/symbol.h"

struct elf_view {
	const uint8_t *data;
	size_t size;
	bool mapped; /* data is unmapped at the close */
	uint16_t machine;
	Elf64_Shdr *sh; /* copies; only those whose contents lie in the file, or have none */
	size_t nsh;
	uint32_t shstr;
};

/* Over bytes that outlive the view. 0, -ENOEXEC, -ENOMEM. */
int elf_view__memory(const void *data, size_t size, struct elf_view *v);
/* Map a file. 0 or -errno; -ENOEXEC: no ELF file of this byte order and 64 bits. */
int elf_view__map(int fd, struct elf_view *v);
/* The same, and what is written to the bytes stays ours: libelf patches headers when it unpacks. */
int elf_view__map_copy(int fd, struct elf_view *v);
void elf_view__close(struct elf_view *v);
/* Section of a name, or of a type (name NULL); NULL if there is none with contents. */
const Elf64_Shdr *elf_view__section(const struct elf_view *v, const char *name, uint32_t type);
bool elf_view__has(const struct elf_view *v, const char *name);
/* Name of a section, bounded by *max bytes; NULL if there is none. */
const char *elf_view__section_name(const struct elf_view *v, const Elf64_Shdr *sh, size_t *max);
/* Build-id from its notes; number of bytes, 0 = none. */
size_t elf_view__build_id(const struct elf_view *v, uint8_t id[BUILD_ID_MAX]);
/* File name and CRC-32 in .gnu_debuglink; false if there is none. */
bool elf_view__debuglink(const struct elf_view *v, char *name, size_t size, uint32_t *crc);
/* Path and build-id in .gnu_debugaltlink (dwz); false if there is none. */
bool elf_view__altlink(const struct elf_view *v, char *name, size_t size, uint8_t id[BUILD_ID_MAX],
		       size_t *id_len);
/* CRC-32 (IEEE 802.3, as .gnu_debuglink has it) of the whole file. */
uint32_t elf_view__crc(const struct elf_view *v);

#endif
