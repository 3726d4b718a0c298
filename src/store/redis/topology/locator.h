#pragma once

#include <string>

#include "store/redis/error_class.h"
#include "store/redis/topology/host_port.h"

namespace weir::store::redis {

// Knows where the server is that is to be asked, and notices when it is another one.
//
// Threads:     the loop's alone; listeners are called from the loop, never from inside a member.
class Locator {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void on_located(const HostPort& where) = 0;
    virtual void on_not_located(LocalFault why, const std::string& text) = 0;
    // What was last located is another server now, or was not located and can be now.
    virtual void on_moved() = 0;
  };

  virtual ~Locator() = default;
  virtual void bind(Listener* listener) = 0;
  // Asks anew; ends in on_located() or on_not_located(), unless forget() comes before.
  virtual void locate() = 0;
  virtual void forget() = 0;
};

}  // namespace weir::store::redis
