// SPDX-License-Identifier: Apache-2.0
/* A library of which only the soname is needed. */
__attribute__((visibility("default"))) int sim_empty_library;
