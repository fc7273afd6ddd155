// SPDX-License-Identifier: Apache-2.0
// stacks_go HAL NUMBER: allocates from C that two goroutines call.
package main

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
static int (*alloc_)(void **, unsigned long long, unsigned long long);
static int (*free_)(void *);
static int prepare(const char *hal)
{
	void *h = dlopen(hal, RTLD_NOW);
	if (!h) return -1;
	*(void **)&alloc_ = dlsym(h, "halMemAlloc");
	*(void **)&free_ = dlsym(h, "halMemFree");
	return alloc_ && free_ ? 0 : -1;
}
__attribute__((noinline)) static int once(unsigned long long n)
{
	void *p;
	int err = alloc_(&p, n, 0);
	return err ? err : free_(p);
}
*/
import "C"

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
)

//go:noinline
func inner(n int) int { return int(C.once(C.ulonglong(n))) }

//go:noinline
func outer(n int) int { return inner(n) + 1 }

func main() {
	number, _ := strconv.Atoi(os.Args[2])
	if C.prepare(C.CString(os.Args[1])) != 0 {
		os.Exit(1)
	}
	fmt.Println("up")
	bufio.NewReader(os.Stdin).ReadString('\n')
	done := make(chan int)
	for t := 0; t < 2; t++ {
		go func() {
			for i := 0; i < number/2; i++ {
				if outer(4096) != 1 {
					os.Exit(2)
				}
			}
			done <- 1
		}()
	}
	<-done
	<-done
	fmt.Println("done")
}
