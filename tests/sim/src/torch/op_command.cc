// SPDX-License-Identifier: Apache-2.0
/* Hermetic OpCommand: operators run at once or on the consumer thread "acl_thread". */
#include "npu.h"
#include "../cann/acl.h"
#include "../cann/nnopbase.h"

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <dlfcn.h>
#include <pthread.h>
#include <thread>
#include <unordered_map>

namespace at_npu
{
namespace native
{

namespace
{

int TaskQueueEnable()
{
	static const int v = [] {
		const char *e = getenv("TASK_QUEUE_ENABLE");
		return e ? atoi(e) : 1;
	}();

	return v;
}

/* One for each device, started with its first operator; never destroyed. */
class Queue
{
      public:
	explicit Queue(int dev) : device(dev)
	{
		std::thread([this] { consume(); }).detach();
	}

	void push(const std::function<int()> &f)
	{
		std::unique_lock<std::mutex> g(lock);

		room.wait(g, [this] { return tasks.size() < kRoom; });
		tasks.push_back(f);
		if (tasks.size() == 1)
			work.notify_one();
	}

	void drain()
	{
		std::unique_lock<std::mutex> g(lock);

		idle.wait(g, [this] { return tasks.empty() && !busy; });
	}

      private:
	static const size_t kRoom = 4096;
	const int device;
	std::mutex lock;
	std::condition_variable work, room, idle;
	std::deque<std::function<int()>> tasks;
	bool busy = false;
	std::atomic<uint64_t> errors{ 0 };

	void consume()
	{
		std::deque<std::function<int()>> batch;

		pthread_setname_np(pthread_self(), "acl_thread");
		aclrtSetDevice(device);
		for (;;) {
			{
				std::unique_lock<std::mutex> g(lock);

				busy = false;
				if (tasks.empty())
					idle.notify_all();
				work.wait(g, [this] { return !tasks.empty(); });
				batch.swap(tasks);
				busy = true;
				room.notify_all();
			}
			for (auto &f : batch) {
				/* An error here is reported by a later call; it ends nothing. */
				try {
					if (f())
						errors.fetch_add(1);
				} catch (const std::exception &) {
					errors.fetch_add(1);
				}
			}
			batch.clear();
		}
	}
};

std::mutex queues_lock;
std::atomic<Queue *> queues[64];

Queue &queue_of(int device)
{
	Queue *q = queues[device & 63].load(std::memory_order_acquire);

	if (q)
		return *q;
	std::lock_guard<std::mutex> g(queues_lock);

	q = queues[device & 63].load();
	if (!q) {
		q = new Queue(device);
		queues[device & 63].store(q, std::memory_order_release);
	}
	return *q;
}

void Enqueue(const std::function<int()> &func, bool sync)
{
	int32_t device = 0;

	if (TaskQueueEnable() == 0) {
		func();
		return;
	}
	c10_npu::GetDevice(&device);
	Queue &q = queue_of(device);

	q.push(func);
	if (sync)
		q.drain();
}

} // namespace

OpCommand &OpCommand::Name(const std::string &name)
{
	name_ = name;
	return *this;
}

/* The older path: an operator by name. */
void OpCommand::Run()
{
	if (name_.empty())
		c10_npu::throwError("an operator needs a name");
	std::string name = name_;

	Enqueue([name] { return name.empty() ? 1 : 0; }, false);
	name_.clear();
}

#if SIM_LAYOUT >= 3
void OpCommand::RunOpApiV2(const std::string &name, const std::function<int()> &func, bool sync)
{
	if (name.empty())
		c10_npu::throwError("an operator needs a name");
	Enqueue(func, sync);
}
#endif

void OpCommand::RunOpApi(const std::string &name, std::function<int()> func, bool sync)
{
	if (name.empty())
		c10_npu::throwError("an operator needs a name");
	Enqueue(func, sync);
}

} // namespace native
} // namespace at_npu

namespace c10_npu
{
namespace acl
{

void DrainQueues()
{
	using namespace at_npu::native;

	for (auto &slot : queues) {
		Queue *q = slot.load();

		if (q)
			q->drain();
	}
}

} // namespace acl
} // namespace c10_npu

namespace
{

using Plan = int (*)(void *, void *, void *, uint64_t *, aclOpExecutor **);
using Go = int (*)(void *, uint64_t, aclOpExecutor *, void *);
struct Op {
	Plan plan;
	Go go;
};

const Op *Find(const std::string &name)
{
	static std::mutex lock;
	static std::unordered_map<std::string, Op> ops;
	static void *lib = dlopen("libopapi.so", RTLD_LAZY);
	std::lock_guard<std::mutex> g(lock);
	auto it = ops.find(name);

	if (it == ops.end() && lib) {
		Op op = { reinterpret_cast<Plan>(dlsym(lib, (name + "GetWorkspaceSize").c_str())),
			  reinterpret_cast<Go>(dlsym(lib, name.c_str())) };

		it = ops.emplace(name, op).first;
	}
	return it == ops.end() || !it->second.go ? nullptr : &it->second;
}

} // namespace

/*
 * One aclnn operator. With the queue in mode 2 the workspace comes from the workspace allocator on
 * the consumer thread, else from the caching allocator on the calling one.
 */
extern "C" SIM_API int sim_npu_op(const char *name, void *stream, size_t workspace)
{
	using namespace at_npu::native;
	using c10_npu::NPUCachingAllocator::allocator;
	const Op *op = Find(name);
	uint64_t planned = 0;
	aclOpExecutor *ex = nullptr;
	void *ws = nullptr;

	if (!op)
		return -1;
	if (op->plan(nullptr, nullptr, nullptr, &planned, &ex))
		return -1;
	if (!workspace)
		workspace = planned;

	bool late = TaskQueueEnable() == 2;

	if (workspace && !late)
		ws = allocator.load()->raw_alloc_with_stream(workspace, stream);

	std::function<int()> run = [=]() -> int {
		if (!workspace || !late)
			return op->go(ws, workspace, ex, stream);
#if SIM_LAYOUT >= 3
		WorkspaceTensor t = allocate_workspace(workspace, stream);
#else
		WorkspaceTensor t(
			c10_npu::NPUWorkspaceAllocator::malloc_with_stream(workspace, stream));
#endif
		return op->go(t.data, workspace, ex, stream);
	};
#if SIM_LAYOUT >= 3
	OpCommand::RunOpApiV2(name, run, false);
#else
	OpCommand::RunOpApi(name, run, false);
#endif
	if (ws)
		allocator.load()->raw_delete(ws);
	return 0;
}

extern "C" SIM_API void sim_npu_sync(void *stream)
{
	c10_npu::acl::DrainQueues();
	aclrtSynchronizeStream(stream);
}
