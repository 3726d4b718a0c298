#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/envoy/name_trial.h"
#include "store/redis/error_class.h"
#include "store/redis/reply_reader.h"
#include "store/redis/store_call.h"
#include "weir/clock.h"

namespace weir::store::redis {

enum class Severity : std::uint8_t {
  fatal,    // no decision may come from this server
  warning,  // limits hold less well than they should; said in lint, /store and the log
};

struct StoreFault {
  Severity severity = Severity::warning;
  std::string text;  // a sentence, with the way out
};

// What a server said of itself when it was connected to, and what follows from it.
struct StoreReport {
  std::string version;
  std::string run_id;  // another one: another process, which may have lost data
  std::string epoch;   // another one, of the same shard: the data were lost
  std::string shard;   // whose own keys these are, see SessionOptions; a single server has none
  bool replica = false;
  bool cluster = false;
  std::uint32_t masters = 0;  // of a cluster that was looked at as a whole; 0: one server was
  bool loading = false;
  bool info_denied = false;  // the user may not ask for what is above and below
  std::uint64_t maxmemory = 0;
  std::string maxmemory_policy;
  std::optional<std::uint32_t> replicas;
  Nanos skew{0};                 // the store's clock less ours, taken as read half way
  Nanos skew_doubt{0};           // how far that may be off: half of the way there and back
  Nanos probe_expiry{0};         // what the probe key's time to live read back as
  std::string permission_fault;  // the first command that the user may not run; empty: none
  // Why counters cannot be kept under the names that the policy gives them instead of Weir's own,
  // and for which it was tried; empty: they can.
  std::string name_fault;
  policy::NameTrial refused_name;
  std::vector<StoreFault> faults;

  bool fatal() const;
};

// How long what a name test counts would live, where the test could not take it away again.
inline constexpr std::int64_t kNameTestSeconds = 5;
// The test of one name, and what its end says against keeping counters so named, in a sentence.
// Absent: nothing.
StoreCall name_test(const policy::NameTrial& name);
std::optional<std::string> name_objection(const policy::NameTrial& name, const ErrorRow* error,
                                          const Reply* reply);

// The least version whose scripts replicate what they did and not what they were told.
inline constexpr std::string_view kLeastVersion = "5.0";
// From here on a clock is worth a word.
inline constexpr Nanos kSkewWorthSaying = std::chrono::milliseconds(250);

// Reads INFO into the report. False: not a reply of INFO.
bool read_info(const Reply& reply, StoreReport& report);

// Reads the reply of TIME. False: not such a reply.
bool read_time(const Reply& reply, Instant& store_now);

// Reads the reply of the self-test script, which was sent with `token` and probes for `expiry`.
// Sets the store's time. False: not such a reply.
bool read_self_test(const Reply& reply, std::string_view token, Nanos expiry, StoreReport& report,
                    Instant& store_now);

// Reads the reply of the script that tries a name. What it says of permissions alone is put into
// the report: the self-test comes upon all else itself. False: not such a reply.
bool read_name_test(const Reply& reply, const policy::NameTrial& tried, StoreReport& report);

// Fills in `faults` from the rest.
void judge(StoreReport& report);

}  // namespace weir::store::redis
