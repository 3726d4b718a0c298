#include "policy/read_store.h"

#include <algorithm>
#include <chrono>

#include "policy/duration.h"
#include "policy/store_url.h"

namespace weir::policy {
namespace {

using namespace std::chrono_literals;

std::optional<StoreUrl> read_url(FaultList& faults, const Value& at, std::string& out) {
  const auto text = read_text(faults, at);
  if (!text) return std::nullopt;
  auto url = parse_store_url(*text);
  if (!url) {
    faults.add(*at.node, at.path, url.error().message, std::string(kStoreUrlForms));
    return std::nullopt;
  }
  out = *text;
  return *std::move(url);
}

// "20ms", or "15% of 300ms".
void read_deadline(FaultList& faults, const Value& at, StoreSpec& store) {
  constexpr Nanos kLeast = 100us;
  constexpr Nanos kMost = 10s;
  const std::string& text = at.node->text;
  const std::size_t of = text.find("% of ");
  if (!at.node->is_scalar() || of == std::string::npos) {
    if (const auto value = read_duration(faults, at, kLeast, kMost)) {
      store.deadline = *value;
      store.deadline_text = text;
    }
    return;
  }
  unsigned percent = 0;
  for (std::size_t i = 0; i < of && of <= 3; ++i)
    percent = text[i] >= '0' && text[i] <= '9' ? percent * 10 + static_cast<unsigned>(text[i] - '0')
                                               : 1'000;
  const auto budget = parse_duration(std::string_view(text).substr(of + 5));
  const bool good = percent >= 1 && percent <= 100 && text.front() != '0' && budget &&
                    *budget <= std::chrono::hours(1);
  const Nanos part = good ? Nanos(budget->count() * percent / 100) : Nanos(0);
  if (part < kLeast || part > kMost) {
    faults.add(
        *at.node, at.path,
        good ? "comes to " + to_text(part) + ", past the range" : "is no part of a latency budget",
        "20ms, or 15% of 300ms; from 100us to 10s");
    return;
  }
  store.deadline = part;
  store.deadline_text = text;
}

template <class Number>
void take_integer(FaultList& faults, MapReader& map, std::string_view field, std::uint64_t least,
                  std::uint64_t most, Number& out) {
  if (const auto at = map.get(field))
    if (const auto value = read_integer(faults, *at, least, most))
      out = static_cast<Number>(*value);
}

void take_duration(FaultList& faults, MapReader& map, std::string_view field, Nanos least,
                   Nanos most, Nanos& out) {
  if (const auto at = map.get(field)) out = read_duration(faults, *at, least, most).value_or(out);
}

void take_text(FaultList& faults, MapReader& map, std::string_view field, std::string& out) {
  if (const auto at = map.get(field)) out = read_text(faults, *at).value_or(out);
}

void take_percent(FaultList& faults, MapReader& map, std::string_view field, std::uint64_t least,
                  double& out) {
  if (const auto at = map.get(field)) out = read_percent(faults, *at, least, 100).value_or(out);
}

void read_tls(FaultList& faults, const Value& at, const std::optional<StoreUrl>& url,
              StoreSpec& store) {
  MapReader map(faults, at, "tls", {"ca", "cert", "key", "server_name"});
  if (!map.is_map()) return;
  StoreSpec::Tls tls;
  take_text(faults, map, "ca", tls.ca);
  take_text(faults, map, "cert", tls.cert);
  take_text(faults, map, "key", tls.key);
  take_text(faults, map, "server_name", tls.server_name);
  if (map.has("cert") != map.has("key"))
    faults.add_silent(*at.node, at.path, "has a certificate or a key without the other",
                      "cert and key together");
  if (url && !url->tls)
    faults.add_silent(*at.node, at.path, "stands beside a URL without TLS",
                      "a URL that begins with rediss");
  store.tls = std::move(tls);
}

void read_breaker(FaultList& faults, const Value& at, StoreSpec::Breaker& out) {
  MapReader map(faults, at, "a breaker",
                {"failures", "slow_call", "slow_rate", "cooldown", "max_cooldown", "jitter"});
  take_integer(faults, map, "failures", 1, 1'000, out.failures);
  take_duration(faults, map, "slow_call", 100us, 10s, out.slow_call);
  take_percent(faults, map, "slow_rate", 1, out.slow_rate);
  take_duration(faults, map, "cooldown", 1ms, 10min, out.cooldown);
  take_duration(faults, map, "max_cooldown", 1ms, 1h, out.max_cooldown);
  take_percent(faults, map, "jitter", 0, out.jitter);
  if (map.has("slow_rate") && !map.has("slow_call"))
    faults.add_silent(*at.node->find("slow_rate"), map.path_of("slow_rate"),
                      "says how many calls may be slow, but not what slow is",
                      "slow_call: a duration beside it");
  if (out.max_cooldown < out.cooldown)
    faults.add_silent(*at.node, at.path,
                      "has a cooldown of " + to_text(out.cooldown) + " above max_cooldown of " +
                          to_text(out.max_cooldown),
                      "max_cooldown of at least the cooldown");
}

void read_recovery(FaultList& faults, const Value& at, StoreSpec::Recovery& out) {
  MapReader map(faults, at, "a recovery", {"steps", "step"});
  take_integer(faults, map, "steps", 1, 64, out.steps);
  take_duration(faults, map, "step", 1ms, 1min, out.step);
}

void read_worker_name(FaultList& faults, MapReader& map, std::string& out) {
  const auto at = map.get("name");
  const auto text = at ? read_text(faults, *at) : std::nullopt;
  if (!text) return;
  const bool good =
      !text->empty() && text->size() <= kMaxWorkerName &&
      std::all_of(text->begin(), text->end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (good)
    out = *text;
  else
    faults.add(*at->node, at->path, "cannot name a worker",
               "1 to 128 printable ASCII characters without spaces");
}

void read_workers(FaultList& faults, const Value& at, StoreSpec::Workers& out) {
  MapReader map(faults, at, "workers", {"of", "index", "name", "state"});
  if (const auto of = map.get("of")) {
    if (const auto value = read_integer(faults, *of, 1, 10'000))
      out.of = static_cast<std::uint32_t>(*value);
  } else if (map.is_map() && !map.has("of") &&
             (map.has("index") || (!map.has("name") && !map.has("state")))) {
    faults.add_silent(*at.node, at.path, "does not say how many workers there are", "{of: N}");
  }
  read_worker_name(faults, map, out.name);
  take_text(faults, map, "state", out.state);
  const auto index = map.get("index");
  if (!index || !out.of) return;
  if (const auto value = read_integer(faults, *index, 0, *out.of - 1))
    out.index = static_cast<std::uint32_t>(*value);
}

void read_prefix(FaultList& faults, MapReader& map, StoreSpec& store) {
  const auto at = map.get("prefix");
  if (!at) return;
  const auto text = read_text(faults, *at);
  if (!text) return;
  constexpr std::string_view kGood =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/";
  if (text->size() <= 64 && text->find_first_not_of(kGood) == std::string::npos)
    store.prefix = *text;
  else
    faults.add(*at->node, at->path, "cannot begin a key",
               "1 to 64 letters, digits, and any of \"_-.:/\"");
}

void read_credentials(FaultList& faults, MapReader& map, const std::optional<StoreUrl>& url,
                      StoreSpec& store) {
  take_text(faults, map, "username", store.username);
  take_text(faults, map, "password_file", store.password_file);
  const bool in_url = url && (!url->username.empty() || !url->password.empty());
  for (const std::string_view field : {"username", "password_file"})
    if (in_url && map.has(field))
      faults.add_silent(*map.at().node->find(field), map.path_of(field),
                        "stands beside a URL that has credentials of its own", "one of the two");
  if (map.has("username") && !map.has("password_file"))
    faults.add_silent(*map.at().node->find("username"), map.path_of("username"), "has no password",
                      "password_file: PATH beside it");
}

// On the memory store only the cap on its keys means anything, and elsewhere only that does not.
void warn_of_the_meaningless(FaultList& faults, MapReader& map, const StoreUrl& url) {
  const bool memory = url.kind == StoreKind::memory;
  for (const auto& [key, value] : map.at().node->fields) {
    if (key->text == "url" || (key->text == "max_keys") == memory) continue;
    if (memory)
      faults.warn(*key, map.path_of(key->text), "means nothing to the memory store");
    else if (key->text == "max_keys")
      faults.warn(*key, map.path_of(key->text), "means something to the memory store alone");
  }
}

}  // namespace

StoreSpec read_store(FaultList& faults, const Value& at) {
  StoreSpec store;
  if (at.node->is_scalar()) {
    (void)read_url(faults, at, store.url);
    return store;
  }
  MapReader map(faults, at, "a store",
                {"url", "fallback", "deadline", "connect_timeout", "username", "password_file",
                 "tls", "prefix", "clock", "startup", "breaker", "recovery", "workers", "regions",
                 "known_keys", "max_keys"});
  if (!map.is_map()) return store;
  // A URL that cannot be read is no reason to hold back the other fields' faults: they are judged
  // as if it were any store.
  std::optional<StoreUrl> url = StoreUrl{};
  if (const auto value = map.get("url")) url = read_url(faults, *value, store.url);
  if (const auto value = map.get("fallback")) {
    std::string text;
    if (read_url(faults, *value, text)) store.fallback_url = text;
    if (text == store.url && !text.empty())
      faults.add_silent(*value->node, value->path, "is the store itself", "another store");
  }
  if (const auto value = map.get("deadline")) read_deadline(faults, *value, store);
  take_duration(faults, map, "connect_timeout", 1ms, 1min, store.connect_timeout);
  read_credentials(faults, map, url, store);
  if (const auto value = map.get("tls")) read_tls(faults, *value, url, store);
  read_prefix(faults, map, store);
  if (const auto value = map.get("clock"))
    store.client_clock =
        read_choice<bool>(faults, *value, {{"store", false}, {"client", true}}).value_or(false);
  if (const auto value = map.get("startup"))
    store.startup =
        read_choice<Startup>(faults, *value,
                             {{"degrade", Startup::degrade}, {"require", Startup::require}})
            .value_or(Startup::degrade);
  if (const auto value = map.get("breaker")) read_breaker(faults, *value, store.breaker);
  if (const auto value = map.get("recovery")) read_recovery(faults, *value, store.recovery);
  if (const auto value = map.get("workers")) read_workers(faults, *value, store.workers);
  take_integer(faults, map, "regions", 1, 64, store.regions);
  take_integer(faults, map, "known_keys", 1'000, 100'000'000, store.known_keys);
  take_integer(faults, map, "max_keys", 1, 1'000'000'000, store.memory_keys);
  if (url) warn_of_the_meaningless(faults, map, *url);
  return store;
}

}  // namespace weir::policy
