#include "store/redis/inspect.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "base/key_digest.h"
#include "policy/key.h"
#include "policy/store_url.h"
#include "store/redis/asio_wire.h"
#include "store/redis/node_of_a_cluster.h"
#include "store/redis/redis_client.h"
#include "store/redis/store_address.h"
#include "store/redis/topology/cluster_watch.h"
#include "store/redis/topology/server_wire.h"

namespace weir::store::redis {
namespace {

// The least that a look may take: one that a deadline of production would cut short says nothing.
constexpr Nanos kLeastPatience = std::chrono::seconds(1);

using Names = std::vector<policy::NameTrial>;

ClientOptions options_of(const policy::StoreSpec& spec, const policy::StoreUrl& url,
                         const Names& names, std::string shard = {}) {
  ClientOptions options;
  options.session.cluster = !shard.empty();
  options.session.shard = std::move(shard);
  options.session.database = url.database;
  options.session.client_name = "weir-lint";
  options.session.names = names;
  options.connect_timeout = spec.connect_timeout;
  options.credentials = credentials_of(spec, url);
  return options;
}

class Look final : private ClientEvents {
 public:
  // At whoever the URL means.
  Look(const policy::StoreSpec& spec, const policy::StoreUrl& url, const Names& names,
       KeySpace keys, Clock& clock)
      : clock_(clock),
        begun_(clock.mono()),
        wire_(server_wire(io_, spec, url, clock)),
        keys_(std::move(keys)),
        patience_(spec.connect_timeout),
        client_(options_of(spec, url, names), keys_, *wire_, clock, *this) {}
  // At a master of a cluster.
  Look(const policy::StoreSpec& spec, const policy::StoreUrl& url, const Names& names,
       const ClusterMaster& master, KeySpace keys, Clock& clock)
      : clock_(clock),
        begun_(clock.mono()),
        wire_(std::make_unique<AsioWire>(io_, endpoint_at(spec, url, master.node.address))),
        keys_(std::move(keys)),
        shard_(name_in_slot(master.highest_slot)),
        patience_(spec.connect_timeout),
        client_(options_of(spec, url, names, shard_), keys_, *wire_, clock, *this) {}

  Inspection run() {
    client_.start();
    while (!done_ && io_.run_one() > 0) {
    }
    if (found_.error == nullptr && found_.report && !found_.report->fatal()) try_names();
    client_.stop();
    return std::move(found_);
  }

 private:
  void on_vote(const Vote&) override {}
  void on_late(const LateReply&) override {}
  void on_unknown(std::uint64_t) override {}
  void on_report(const StoreReport& report) override {
    found_.report = report;
    finish();
  }
  void on_disconnected(const ErrorRow& why, std::string_view text) override {
    if (done_) return;
    found_.error = &why;
    found_.error_text = text;
    if (!client_.report().faults.empty()) found_.report = client_.report();
    finish();
  }
  // The self-test's own names are none of a counter's: a user's rights may hold the one kind and
  // not the other. Rights are looked at before anything else is, so that another master's slot or
  // what stands there says nothing; and nothing is removed where nothing like it is.
  void try_names() {
    for (const std::string& name : names()) {
      ++asked_;
      client_.call({.arguments = {"LREM", name, "-1", "weir-lint"}}, patience_,
                   [this, name](const ErrorRow* error, const Reply*, bool late) {
                     if (late) return;
                     --asked_;
                     if (error == nullptr) return;
                     if (error->pattern == "NOPERM") refused(name);
                     if (error->error_class == ErrorClass::redirected && shard_.empty()) sent_on();
                   });
    }
    while (asked_ > 0 && io_.run_one() > 0) {
    }
  }
  // Of all kinds; some of counters, whose tags differ.
  std::vector<std::string> names() const {
    std::vector<std::string> out{keys_.meta(shard_, "members"),
                                 keys_.meta({}, "circuit/weir-lint")};
    const ValueDigester digester = ValueDigester::from_text("weir-lint");
    char buffer[policy::KeyWriter::kMaxKeyBytes];
    for (const char* value : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
      policy::KeyWriter key(buffer, policy::KeyWriter::own_identity('l', 'n', 't'));
      key.value(value, digester);
      out.push_back(keys_.counter(key.view()));
    }
    return out;
  }
  void refused(const std::string& name) {
    if (std::exchange(said_refused_, true)) return;
    found_.report->faults.push_back(
        {Severity::fatal, "the user may not write the key '" + name +
                              "', as those of counters, leases and breakers are named; give it all "
                              "that begin so: ~" +
                              keys_.root() + "*"});
  }
  // One of several nodes, whatever INFO let us know: most keys are never decided there.
  void sent_on() {
    std::vector<StoreFault>& faults = found_.report->faults;
    auto known = std::find_if(faults.begin(), faults.end(), [](const StoreFault& fault) {
      return fault.text == kNodeOfACluster;
    });
    if (known != faults.end()) {
      known->severity = Severity::fatal;
    } else {
      faults.push_back({Severity::fatal, std::string(kNodeOfACluster)});
    }
  }
  void finish() {
    found_.took = clock_.mono() - begun_;
    done_ = true;
  }

  Clock& clock_;
  const MonoTime begun_;
  bool done_ = false;
  Inspection found_;
  boost::asio::io_context io_{1};
  std::unique_ptr<Wire> wire_;
  const KeySpace keys_;
  const std::string shard_;
  const Nanos patience_;
  std::size_t asked_ = 0;  // names that are not answered yet
  bool said_refused_ = false;
  RedisClient client_;
};

// Waits for the slot map.
class MapLook final : private ClusterWatch::Listener {
 public:
  MapLook(const policy::StoreSpec& spec, const policy::StoreUrl& url, Clock& clock)
      : watch_(
            options_of_watch(spec, url),
            [this] { return std::make_unique<AsioWire>(io_, Endpoint{}); },
            [&](const HostPort& where) { return endpoint_at(spec, url, where); }, clock, *this) {}

  // Absent: `found` says why.
  std::optional<SlotMap> run(Inspection& found) {
    watch_.start();
    while (!map_ && why_ == nullptr && io_.run_one() > 0) {
    }
    watch_.stop();
    found.error = why_;
    found.error_text = text_;
    return std::move(map_);
  }

 private:
  static ClusterWatch::Options options_of_watch(const policy::StoreSpec& spec,
                                                const policy::StoreUrl& url) {
    ClusterWatch::Options options{.seeds = {}, .patience = spec.connect_timeout, .credentials = {}};
    for (const policy::StoreHost& host : url.hosts) {
      options.seeds.push_back({host.host, host.port});
    }
    if (has_credentials(spec, url)) options.credentials = credentials_of(spec, url);
    return options;
  }
  void on_map(const SlotMap& map) override { map_ = map; }
  void on_no_map(LocalFault why, const std::string& text) override {
    why_ = &row_of(why);
    text_ = text;
  }

  std::optional<SlotMap> map_;
  const ErrorRow* why_ = nullptr;
  std::string text_;
  boost::asio::io_context io_{1};
  ClusterWatch watch_;
};

// What one master said, added to what the others did.
void add(const ClusterMaster& master, Inspection one, Inspection& all) {
  const std::string where = master.node.address.text() + ": ";
  all.took = std::max(all.took, one.took);
  if (one.error != nullptr && all.error == nullptr) {
    all.error = one.error;
    all.error_text =
        where + (one.error_text.empty() ? std::string(one.error->meaning) : one.error_text);
  }
  if (!one.report) return;
  for (StoreFault& fault : one.report->faults) fault.text = where + fault.text;
  if (!all.report) {
    all.report = std::move(one.report);
    all.report->masters = 1;
    return;
  }
  ++all.report->masters;
  all.report->skew = std::max(all.report->skew, one.report->skew, [](Nanos a, Nanos b) {
    return std::chrono::abs(a) < std::chrono::abs(b);
  });
  for (StoreFault& fault : one.report->faults) all.report->faults.push_back(std::move(fault));
}

Inspection inspect_cluster(const policy::StoreSpec& spec, const policy::StoreUrl& url,
                           const Names& names, const KeySpace& keys, Clock& clock) {
  Inspection all;
  const auto map = MapLook(spec, url, clock).run(all);
  if (!map) return all;
  for (const ClusterMaster& master : map->masters) {
    add(master, Look(spec, url, names, master, keys, clock).run(), all);
  }
  const auto unowned = std::count(map->owner.begin(), map->owner.end(), SlotMap::kNobody);
  if (unowned > 0 && all.report) {
    all.report->faults.push_back(
        {Severity::warning,
         std::to_string(unowned) +
             " slots have no master: what is counted there is decided by policy"});
  }
  return all;
}

}  // namespace

Result<Inspection> inspect(const policy::StoreSpec& spec, const Names& names, Clock& clock) {
  const auto url = policy::parse_store_url(spec.url);
  if (!url) return url.error();
  if (url->kind == policy::StoreKind::memory) {
    return Error{ErrorCode::failed_precondition,
                 "memory: is in every process, and nothing to connect to"};
  }
  auto keys = KeySpace::make(spec.prefix, spec.prefix);
  if (!keys) return keys.error();
  if (auto usable = check_files(spec, *url); !usable) return usable.error();
  policy::StoreSpec patient = spec;
  patient.connect_timeout = std::max(spec.connect_timeout, kLeastPatience);
  if (url->kind == policy::StoreKind::cluster) {
    return inspect_cluster(patient, *url, names, *keys, clock);
  }
  return Look(patient, *url, names, std::move(*keys), clock).run();
}

}  // namespace weir::store::redis
