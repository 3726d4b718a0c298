#pragma once

#include <memory>

#include "server/stream.h"

namespace weir::server {

class Lane;

// Understands one protocol: makes a Connection of every stream a listener accepts and gives it to
// the lane (Lane::adopt). One a lane and listener, so it may keep what is the lane's own.
//
// Threads:     the lane's alone.
class Door {
 public:
  virtual ~Door() = default;
  virtual void open(Lane& lane, std::unique_ptr<Stream> stream) = 0;
  // The lane holds all the connections it may: says so in the protocol's words, if it has some that
  // can be sent without waiting. The stream is closed by going out of scope.
  virtual void turn_away(Lane& lane, std::unique_ptr<Stream> stream) {
    (void)lane;
    (void)stream;
  }
};

}  // namespace weir::server
