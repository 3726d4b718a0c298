#include "store/redis/store_report.h"

#include <algorithm>
#include <charconv>

#include "store/redis/byte_codec.h"
#include "store/redis/error_class.h"
#include "store/redis/script.h"

namespace weir::store::redis {
namespace {

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void read_field(std::string_view name, std::string_view value, StoreReport& report) {
  if (name == "redis_version" && report.version.empty()) report.version = value;
  if (name == "valkey_version") report.version = "Valkey " + std::string(value);
  if (name == "run_id") report.run_id = value;
  if (name == "role") report.replica = value != "master";
  if (name == "loading") report.loading = value == "1";
  if (name == "cluster_enabled") report.cluster = value == "1";
  if (name == "redis_mode") report.cluster = report.cluster || value == "cluster";
  if (name == "maxmemory") report.maxmemory = number_in<std::uint64_t>(value).value_or(0);
  if (name == "maxmemory_policy") report.maxmemory_policy = value;
  if (name == "connected_slaves") report.replicas = number_in<std::uint32_t>(value);
}

// Seconds since 1970 and microseconds, as TIME tells them.
std::optional<Instant> instant_in(std::string_view seconds_text, std::string_view micros_text) {
  const auto seconds = number_in<std::int64_t>(seconds_text);
  const auto micros = number_in<std::int64_t>(micros_text);
  if (!seconds || !micros || *seconds < 0 || *seconds >= std::int64_t{1} << 33 || *micros < 0 ||
      *micros >= 1'000'000) {
    return std::nullopt;
  }
  return Instant{Nanos{*seconds * kNanosInSecond + *micros * 1'000}};
}

// "7.0.15" and "Valkey 8.0.1" against "5.0", by their first number.
bool too_old(std::string_view version) {
  const std::size_t at = version.find_first_of("0123456789");
  if (at == std::string_view::npos) return false;
  int major = 0;
  std::from_chars(version.data() + at, version.data() + version.size(), major);
  return major < 5;
}

// What the self-test came upon, and what to do: by its kind, where the server named one.
std::string fault_text(std::string_view fault) {
  const ErrorRow& row = classify_reply(fault);
  std::string out = "a command that every limit needs fails: ";
  out += without_arguments(fault);
  out += "; ";
  out += row.pattern.empty() ? "use another server" : row.remedy;
  return out;
}

std::string milliseconds(Nanos length) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(length).count()) +
         " ms";
}

}  // namespace

bool StoreReport::fatal() const {
  return std::any_of(faults.begin(), faults.end(),
                     [](const StoreFault& fault) { return fault.severity == Severity::fatal; });
}

bool read_info(const Reply& reply, StoreReport& report) {
  if (reply.root().type != ReplyType::string) return false;
  std::string_view rest = reply.text(reply.root());
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos) {
      read_field(line.substr(0, colon), line.substr(colon + 1), report);
    }
  }
  return !report.version.empty();
}

bool read_time(const Reply& reply, Instant& store_now) {
  if (!reply.is_flat_array(2) || reply.at(0).type != ReplyType::string ||
      reply.at(1).type != ReplyType::string) {
    return false;
  }
  const auto when = instant_in(reply.text(reply.at(0)), reply.text(reply.at(1)));
  if (when) store_now = *when;
  return when.has_value();
}

bool read_self_test(const Reply& reply, std::string_view token, Nanos expiry, StoreReport& report,
                    Instant& store_now) {
  if (!reply.is_flat_array(6) || reply.at(3).type != ReplyType::integer) return false;
  for (const std::size_t i :
       {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{4}, std::size_t{5}}) {
    if (reply.at(i).type != ReplyType::string) return false;
  }
  const auto when = instant_in(reply.text(reply.at(0)), reply.text(reply.at(1)));
  if (!when) return false;
  store_now = *when;
  report.epoch = reply.text(reply.at(4));
  report.permission_fault = reply.text(reply.at(5));
  report.probe_expiry = std::chrono::milliseconds(reply.at(3).integer);
  if (!report.permission_fault.empty()) return true;
  if (reply.text(reply.at(2)) != token) {
    report.permission_fault = "the probe key was not read back as it was written";
  } else if (report.probe_expiry <= Nanos{0} || report.probe_expiry > expiry) {
    report.permission_fault = "the probe key did not keep its time to live";
  }
  return true;
}

namespace {

std::string objection_to(const policy::NameTrial& name, std::string_view fault) {
  return "the user may not keep counters under the names that `rls.keys: envoyproxy` gives them, "
         "as "
         "'" +
         name.name + "': " + std::string(fault) + "; give it all that begin so: ~" + name.root +
         "*";
}

}  // namespace

StoreCall name_test(const policy::NameTrial& name) {
  return {.script = &kNameTestScript,
          .keys = {name.name},
          .arguments = {std::to_string(kNameTestSeconds)}};
}

std::optional<std::string> name_objection(const policy::NameTrial& name, const ErrorRow* error,
                                          const Reply* reply) {
  if (error != nullptr) {
    if (error->error_class != ErrorClass::misconfigured) return std::nullopt;
    return objection_to(name, error->meaning);
  }
  StoreReport report;
  (void)read_name_test(*reply, name, report);
  if (report.name_fault.empty()) return std::nullopt;
  return objection_to(name, report.name_fault);
}

bool read_name_test(const Reply& reply, const policy::NameTrial& tried, StoreReport& report) {
  std::string_view error = reply.error();
  bool lost = false;
  if (reply.root().type != ReplyType::error) {
    if (!reply.is_flat_array(3) || reply.at(0).type != ReplyType::string ||
        reply.at(1).type != ReplyType::integer || reply.at(2).type != ReplyType::string) {
      return false;
    }
    error = reply.text(reply.at(2));
    lost = error.empty() && (reply.text(reply.at(0)) != "1" || reply.at(1).integer <= 0);
  }
  // A node of a cluster looks at the rights to a key before it says that it lies elsewhere.
  const bool denied =
      !error.empty() && classify_reply(error).error_class == ErrorClass::misconfigured;
  if ((!denied && !lost) || !report.name_fault.empty()) return true;
  report.name_fault = lost ? "what was counted there was not read back" : without_arguments(error);
  report.refused_name = tried;
  return true;
}

void judge(StoreReport& report) {
  report.faults.clear();
  const auto say = [&](Severity severity, std::string text) {
    report.faults.push_back({severity, std::move(text)});
  };
  if (report.replica) {
    say(Severity::fatal, "this is a replica: a limit is never decided from one; name the primary");
  }
  if (report.loading) say(Severity::fatal, "it is still reading its data set");
  // A replica writes nothing for anybody: that is no matter of permissions.
  if (!report.permission_fault.empty() && !report.replica) {
    say(Severity::fatal, fault_text(report.permission_fault));
  }
  if (!report.name_fault.empty() && !report.replica) {
    say(Severity::fatal, objection_to(report.refused_name, report.name_fault));
  }
  if (too_old(report.version)) {
    say(Severity::fatal, "version " + report.version + " is too old; at least " +
                             std::string(kLeastVersion) + " is needed");
  }
  if (report.info_denied) {
    say(Severity::warning,
        "INFO is not permitted, so role, version and eviction policy are unknown; permit +info");
  }
  if (!report.maxmemory_policy.empty() && report.maxmemory_policy != "noeviction" &&
      report.maxmemory > 0) {
    say(Severity::warning,
        "maxmemory-policy " + report.maxmemory_policy +
            " deletes counters when memory is short, and with them what was used; set noeviction");
  }
  // A reply that was long under way says nothing of a clock.
  if (std::chrono::abs(report.skew) >= kSkewWorthSaying + report.skew_doubt) {
    say(Severity::warning, "its clock is " + milliseconds(std::chrono::abs(report.skew)) +
                               (report.skew > Nanos{0} ? " ahead of" : " behind") +
                               " this host's; unless each worker's own clock is to count, limits "
                               "follow the store's");
  }
}

}  // namespace weir::store::redis
