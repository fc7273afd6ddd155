// SPDX-License-Identifier: Apache-2.0
/*
 * A dump csv of a training pattern on standard output, in the vendor's order
 * (the rows of a block when it ends): bench-dump ROWS [SEED]. Each SEED gives
 * some operators another name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIVE 2000 /* blocks at once */
#define OPS_A_STEP 3000

struct row {
	unsigned long id, time;
	unsigned int op;
};

struct block {
	unsigned long id, time, alloc, ptr, used;
	unsigned int size, n;
	struct row access[3];
};

static struct block blocks[LIVE];
static unsigned long id, rows, now = 1700000000000000000, used, allocs, range;

static const char *const ops[] = { "addmm.default",   "relu.default",
				   "mm.default",      "t.default",
				   "sum.dim_IntList", "_foreach_addcdiv_.ScalarList",
				   "view.default",    "conv2d.default",
				   "add_.Tensor",     "embedding.default" };
#define N_OPS (sizeof(ops) / sizeof(ops[0]))

static void head(unsigned long i, const char *event, const char *type)
{
	printf("%lu,%s,%s,", i, event, type);
	rows++;
}

static void op_row(const char *what, unsigned int op, int other)
{
	head(++id, "OP_LAUNCH", what);
	printf("torch._ops.aten.%s%s,%lu,4711,4711,0,N/A,,,\n", other ? "other_" : "", ops[op],
	       now += 700);
}

static void mark(const char *type, const char *name, unsigned long n)
{
	head(++id, "MSTX", type);
	if (n)
		printf("\"%s%lu\",%lu,4711,4711,0,N/A,,,\n", name, n, now += 900);
	else
		printf("\"%s\",%lu,4711,4711,0,N/A,,,\n", name, now += 900);
}

static void begin_block(struct block *b, unsigned long place)
{
	b->size = 512 * (1 + (unsigned int)(place * 2654435761u >> 20) % 64);
	used += b->size;
	*b = (struct block){ .id = ++id,
			     .time = now += 500,
			     .alloc = ++allocs,
			     .ptr = 20616935636992 + place * 65536,
			     .used = used,
			     .size = b->size };
}

static void access_block(struct block *b, unsigned int op)
{
	if (b->alloc && b->n < 3)
		b->access[b->n++] = (struct row){ ++id, now += 200, op };
}

static void end_block(struct block *b)
{
	unsigned int i;

	head(b->id, "MALLOC", "PTA");
	printf("N/"
	       "A,%lu,4711,4711,0,%lu,\"{allocation_id:%lu,addr:%lu,size:%u,total:268435456,used:%"
	       "lu}\",,\n",
	       b->time, b->ptr, b->alloc, b->ptr, b->size, b->used);
	for (i = 0; i < b->n; i++) {
		head(b->access[i].id, "ACCESS", i ? "READ" : "WRITE");
		printf("torch._ops.aten.%s,%lu,4711,4711,0,%lu,\"{allocation_id:%lu,addr:%lu,size:%"
		       "u,"
		       "type:PTA,dtype:torch.float32,shape:torch.Size([%u, 2])}\",,\n",
		       ops[b->access[i].op], b->access[i].time, b->ptr, b->alloc, b->ptr, b->size,
		       b->size / 8);
	}
	used -= b->size;
	head(++id, "FREE", "PTA");
	printf("N/"
	       "A,%lu,4711,4711,0,%lu,\"{allocation_id:%lu,addr:%lu,size:%u,total:268435456,used:%"
	       "lu}\",,\n",
	       now += 400, b->ptr, b->alloc, b->ptr, b->size, used);
}

int main(int argc, char **argv)
{
	unsigned long want = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000, i;
	unsigned long seed = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;

	setvbuf(stdout, NULL, _IOFBF, 1 << 20);
	puts("ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,"
	     "Call Stack(Python),Call Stack(C)");
	for (i = 0; rows < want; i++) {
		unsigned int op = (unsigned int)(i * 7 % N_OPS);
		/* A few blocks live for steps. */
		unsigned long place = i % 97 ? i * 31 % (LIVE - 100) : LIVE - 100 + i / 97 % 100;

		if (i % OPS_A_STEP == 0) {
			if (range)
				mark("Range_end", "Range end from id ", range);
			range++;
			mark("Range_start", "step start", 0);
		}
		op_row("ATEN_START", op, seed && (i * 2654435761u + seed) % 400 == 0);
		access_block(&blocks[i * 17 % LIVE], op);
		if (blocks[place].alloc)
			end_block(&blocks[place]);
		begin_block(&blocks[place], place);
		access_block(&blocks[place], op);
		head(++id, "KERNEL_LAUNCH", "KERNEL_LAUNCH");
		printf("aclnn%s,%lu,4711,4712,0,N/A,\"{streamId:2,taskId:%lu}\",,\n", ops[op],
		       now += 300, i & 65535);
		op_row("ATEN_END", op, seed && (i * 2654435761u + seed) % 400 == 0);
	}
	return fflush(stdout) || ferror(stdout);
}
