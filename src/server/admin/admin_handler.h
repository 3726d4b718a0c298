#pragma once

#include <string>

#include "guard/fleet_seat.h"
#include "guard/shared_store.h"
#include "server/admin/admin_access.h"
#include "server/health.h"
#include "server/http/check_body.h"
#include "server/http/handler.h"
#include "server/http/safeguard_body.h"
#include "server/reload/policy_loader.h"

namespace weir::server {

// The admin door's pages: /healthz, /readyz, /metrics, /store, /policy, /explain; and the changes
// POST /policy/reload, POST /reset and POST /breaker.
class AdminHandler final : public http::Handler {
 public:
  struct Parts {
    Guard& guard;
    PolicyLoader& loader;
    render::Metrics& metrics;
    const Health& health;
  };

  // Requires:    what `parts` names outlives this and is used in the lane's thread alone where it
  // is not safe from any.
  AdminHandler(Parts parts, AdminAccess access);

  void handle(const http::Request& request, http::Exchange& exchange) override;

 private:
  using Page = void (AdminHandler::*)(const http::Request&, http::Exchange&);
  struct Entry;
  static const Entry kEntries[];

  void index(const http::Request& request, http::Exchange& exchange);
  void healthz(const http::Request& request, http::Exchange& exchange);
  void append_worker(bool away, const guard::WorkerPart& part);
  void append_fallback(const guard::SharedStore::Fallback& fallback);
  void readyz(const http::Request& request, http::Exchange& exchange);
  void metrics(const http::Request& request, http::Exchange& exchange);
  void store(const http::Request& request, http::Exchange& exchange);
  void policy(const http::Request& request, http::Exchange& exchange);
  void explain(const http::Request& request, http::Exchange& exchange);
  void reload(const http::Request& request, http::Exchange& exchange);
  void reset(const http::Request& request, http::Exchange& exchange);
  void append_safeguards();
  void breaker(const http::Request& request, http::Exchange& exchange);

  Parts parts_;
  const AdminAccess access_;
  http::CheckBody body_;
  http::SafeguardBody safeguard_body_;
  std::string text_;
};

}  // namespace weir::server
