// SPDX-License-Identifier: Apache-2.0
/* Stub libge_runner.so for MindSpore: the one singleton whose object is used while it loads. */
#include <cstdint>
#include <map>
#include <string>

namespace ge
{

/* The map of error texts is the object's first member. */
class StatusFactory
{
      public:
	static StatusFactory *Instance();

      private:
	std::map<uint32_t, std::string> text_;
};

StatusFactory *StatusFactory::Instance()
{
	static StatusFactory *f = new StatusFactory;

	return f;
}

} // namespace ge
