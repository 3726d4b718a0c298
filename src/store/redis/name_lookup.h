#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

// Boost 1.74 needs <utility> before its headers.
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>

namespace weir::store::redis {

// Asks the system's resolver for an event loop. It may take half a minute over one name, and
// nothing can stop it: so each name is asked for in a thread of its own, which nobody waits for.
// One name that hangs keeps no other one waiting, nor the end of the loop.
//
// Threads:     ask() in the loop's.
class NameLookup final : public boost::asio::execution_context::service {
 public:
  using Addresses = std::vector<boost::asio::ip::address>;
  // Called in the loop. No address: the name has none, or nobody could say.
  using Done = std::function<void(const Addresses& found)>;
  using Resolve = std::function<Addresses(const std::string& host)>;

  static inline boost::asio::execution_context::id id;
  static NameLookup& of(boost::asio::io_context& io) {
    return boost::asio::use_service<NameLookup>(io);
  }
  // Absent: the system's resolver.
  explicit NameLookup(boost::asio::io_context& io, Resolve resolve = {});
  ~NameLookup() override;

  // Whoever asks for a name that is being asked for already hears what comes of that.
  void ask(const std::string& host, Done done);

 private:
  // Names at once: each is a thread.
  static constexpr std::size_t kMostNames = 32;

  using Work = boost::asio::executor_work_guard<boost::asio::io_context::executor_type>;
  struct Asked {
    Done done;
    Work work;  // the loop has something to wait for
  };
  // Outlives the loop for as long as a thread knows it.
  struct Mailbox;
  struct Answer;

  void shutdown() override;
  bool begin(const std::string& host);
  // False: there is no memory for it. In the thread of the name, which may outlive whose it is.
  static bool post(NameLookup* whose, Mailbox& box, const std::shared_ptr<const Answer>& answer);
  void tell(const std::string& host, const Addresses& found);

  boost::asio::io_context& io_;
  const Resolve resolve_;
  const std::shared_ptr<Mailbox> mailbox_;
  std::map<std::string, std::vector<Asked>> asked_;
};

}  // namespace weir::store::redis
