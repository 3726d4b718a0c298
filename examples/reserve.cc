// Work whose cost is known only afterwards: reserve an estimate, settle what it used.
#include <weir/weir.h>

#include <filesystem>
#include <iostream>
#include <string>

using namespace std::chrono_literals;

int main() {
  const std::string folder = std::filesystem::temp_directory_path() / "weir-example-reserve";
  std::filesystem::remove_all(folder);
  auto policy = weir::Policy::parse("journal: " + folder + R"(
inputs: [account]
routes:
  chat:
    limits: [{requests: 1000, per: day, by: [account], meter: true}]
    protects: revenue
    overspend: {cap: 100}
)");
  auto guard = weir::Guard::open(policy.value()).value();
  weir::Reservations reservations(guard);

  weir::Reservation work =
      reservations.reserve("chat", {{"account", "42"}}, 800,
                           {.expire = 10min, .on_expiry = weir::OnExpiry::last_heartbeat});
  if (!work.decision.allowed()) return 1;
  std::cout << "reserved 800\n";

  // It goes on, and used 300 so far: what is billed should nobody settle it.
  (void)reservations.heartbeat(work.id, 300);

  // Durable when it returns; told again, it changes nothing.
  weir::Settlement bill = reservations.settle(work.id, 512).value();
  std::cout << "settled " << bill.units << ", overdraft " << bill.overdraft << '\n';

  // What is left: the other 288 are free again.
  weir::Decision left = guard.peek("chat", {{"account", "42"}});
  std::cout << "remaining: " << left.rules().front().remaining.value() << '\n';

  // The same request, told twice: charged once.
  weir::Decision first = guard.check("chat", {{"account", "42"}}, {.idempotency_key = "order-7"});
  weir::Decision again = guard.check("chat", {{"account", "42"}}, {.idempotency_key = "order-7"});
  std::cout << (first.allowed() && again.replayed ? "replayed" : "charged again") << '\n';
}

// Prints:
// reserved 800
// settled 512, overdraft 0
// remaining: 488
// replayed
