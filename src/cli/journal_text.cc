#include "cli/journal_text.h"

#include <array>
#include <ctime>

#include "render/text.h"

namespace weir::cli {
namespace {

std::string printable(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    if (c >= ' ' && c < 0x7f && c != '\\') {
      out.push_back(c);
      continue;
    }
    std::array<char, 8> escaped{};
    (void)std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned char>(c));
    out += escaped.data();
  }
  return out;
}

// "2026-11-30T10:15:00Z"; fractions of a second are left out.
std::string date(Instant at) {
  const std::time_t seconds =
      std::chrono::floor<std::chrono::seconds>(at).time_since_epoch().count();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 40> text{};
  (void)std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

class Json {
 public:
  Json& number(std::string_view name, std::uint64_t value) {
    begin(name);
    render::append_number(out_, value);
    return *this;
  }
  Json& text(std::string_view name, std::string_view value) {
    begin(name);
    render::append_json_string(out_, value);
    return *this;
  }
  Json& flag(std::string_view name, bool value) {
    begin(name);
    out_ += value ? "true" : "false";
    return *this;
  }
  std::string done() { return out_ + "}"; }

 private:
  void begin(std::string_view name) {
    out_ += out_.size() > 1 ? ",\"" : "\"";
    out_.append(name).append("\":");
  }
  std::string out_ = "{";
};

std::string counted(std::uint64_t count, const char* what) {
  return std::to_string(count) + ' ' + what + (count == 1 ? "" : "s");
}

std::string_view mode_name(policy::OverspendMode mode) {
  switch (mode) {
    case policy::OverspendMode::forgive:
      return "forgive";
    case policy::OverspendMode::bill:
      return "bill";
    case policy::OverspendMode::cap:
      return "cap";
  }
  return "cap";
}

void describe(const ledger::StoredEvent& stored, Json& json) {
  json.number("number", stored.number);
  const auto event = stored.read();
  if (!event) {
    json.text("damaged", event.error().message);
    return;
  }
  json.text("id", event->id.text())
      .text("at", date(event->at))
      .text("tenant", printable(event->tenant))
      .text("route", event->route)
      .text("rule", event->rule)
      .text("window_start", date(event->window_start))
      .number("units", event->units)
      .number("overspent", event->overspent)
      .text("overspend", mode_name(event->mode))
      .flag("outage", event->outage);
  if (!event->idempotency_key.empty())
    json.text("idempotency_key", printable(event->idempotency_key));
}

}  // namespace

std::string text_of(const JournalOverview& overview) {
  const ledger::JournalFile::Counts& counts = overview.counts;
  std::string out = overview.folder + ": " + counted(counts.last, "event") + " recorded, " +
                    std::to_string(counts.settled) + " settled, " +
                    std::to_string(counts.unsettled) + " waiting, " +
                    std::to_string(counts.quarantined) + " in quarantine\n";
  if (overview.reservations > 0)
    out += counted(overview.reservations, "reservation") +
           (overview.reservations == 1 ? " stands\n" : " stand\n");
  out += "on disk " + std::to_string(overview.file_bytes) + " bytes";
  if (counts.oldest) {
    out += "; the oldest waits since " + date(*counts.oldest) + ", ";
    const auto age = std::chrono::floor<std::chrono::seconds>(overview.now - *counts.oldest);
    render::append_duration(out, std::max(Nanos(0), Nanos(age)));
  }
  out += "\nledger: ";
  if (!overview.balance) return out + overview.ledger_fault + "\n";
  return out + counted(overview.balance->events, "event") + " of this journal, " +
         counted(overview.balance->units, "unit") + "\n";
}

std::string json_of(const JournalOverview& overview) {
  const ledger::JournalFile::Counts& counts = overview.counts;
  Json json;
  json.text("folder", overview.folder)
      .number("recorded", counts.last)
      .number("settled", counts.settled)
      .number("waiting", counts.unsettled)
      .number("waiting_bytes", counts.unsettled_bytes)
      .number("quarantined", counts.quarantined)
      .number("reservations", overview.reservations)
      .number("file_bytes", overview.file_bytes);
  if (counts.oldest) json.text("oldest_waiting", date(*counts.oldest));
  if (overview.balance)
    json.number("ledger_events", overview.balance->events)
        .number("ledger_units", overview.balance->units);
  else
    json.text("ledger_fault", overview.ledger_fault);
  return json.done() + "\n";
}

std::string text_of(const ledger::StoredEvent& stored) {
  const auto event = stored.read();
  std::string out = std::to_string(stored.number) + "  ";
  if (!event) return out + event.error().message;
  out += date(event->at) + "  " + printable(event->tenant) + "  " + std::string(event->route) +
         "  " + std::string(event->rule) + "  " + counted(event->units, "unit");
  if (event->overspent > 0) out += ", " + std::to_string(event->overspent) + " overspent";
  if (event->outage) out += ", without the store";
  return out;
}

std::string json_of(const ledger::StoredEvent& event) {
  Json json;
  describe(event, json);
  return json.done();
}

std::string text_of(const ledger::QuarantinedEvent& each) {
  return text_of(each.event) + ": " + each.reason + " (since " + date(each.at) + ")";
}

std::string json_of(const ledger::QuarantinedEvent& each) {
  Json json;
  describe(each.event, json);
  return json.text("reason", each.reason).text("since", date(each.at)).done();
}

void JournalAudit::judge() {
  const std::uint64_t accounted =
      counts.settled + counts.unsettled + counts.quarantined + counts.replayed + counts.skipped;
  if (accounted != counts.last)
    faults.push_back("journal: " + std::to_string(counts.last) + " events were recorded and " +
                     std::to_string(accounted) + " are accounted for");
  if (balance.events + balance.rejected != balance.last)
    faults.push_back("ledger: it is at event " + std::to_string(balance.last) +
                     " of this journal, and " + std::to_string(balance.events) + " and " +
                     std::to_string(balance.rejected) + " rejected ones are accounted for");
  if (counts.settled_upto > balance.last)
    faults.push_back("ledger: it is at event " + std::to_string(balance.last) +
                     ", and the journal let go of those up to " +
                     std::to_string(counts.settled_upto));
}

void JournalAudit::add(const ledger::LedgerLine& line) {
  ++lines;
  units += line.units;
  overspent += line.overspent;
  forgiven += line.forgiven;
}

std::string text_of(const JournalAudit& audit) {
  const ledger::JournalFile::Counts& counts = audit.counts;
  std::string out = "journal: " + counted(counts.last, "event") + " = " +
                    std::to_string(counts.settled) + " settled + " +
                    std::to_string(counts.unsettled) + " waiting + " +
                    std::to_string(counts.quarantined) + " in quarantine";
  if (counts.replayed > 0) out += " + " + std::to_string(counts.replayed) + " replayed";
  if (counts.skipped > 0) out += " + " + std::to_string(counts.skipped) + " passed over";
  out += "\nledger: " + counted(audit.balance.events, "event") + " of it, " +
         std::to_string(audit.balance.repeated) + " of these repeated, " +
         std::to_string(audit.balance.rejected) + " rejected; in all " +
         counted(audit.lines, "line") + ", " + counted(audit.units, "unit") + ", " +
         std::to_string(audit.overspent) + " overspent, " + std::to_string(audit.forgiven) +
         " forgiven\n";
  for (const std::string& fault : audit.faults) out += fault + "\n";
  return out + (audit.faults.empty() ? "balanced\n" : "does not balance\n");
}

std::string json_of(const JournalAudit& audit) {
  const ledger::JournalFile::Counts& counts = audit.counts;
  Json json;
  json.flag("balanced", audit.faults.empty())
      .number("recorded", counts.last)
      .number("settled", counts.settled)
      .number("waiting", counts.unsettled)
      .number("quarantined", counts.quarantined)
      .number("ledger_events", audit.balance.events)
      .number("repeated", audit.balance.repeated)
      .number("rejected", audit.balance.rejected)
      .number("units", audit.units)
      .number("overspent", audit.overspent)
      .number("forgiven", audit.forgiven);
  for (const std::string& fault : audit.faults) json.text("fault", fault);
  return json.done() + "\n";
}

std::string csv_heading() {
  return "tenant,route,rule,window_start,window_seconds,events,units,overspent,forgiven,billed\n";
}

std::string csv_of(const ledger::LedgerLine& line) {
  const auto quoted = [](const std::string& text) {
    std::string out = "\"";
    for (const char c : text) out.append(c == '"' ? 2 : 1, c);
    return out + '"';
  };
  std::string out = quoted(printable(line.tenant)) + "," + quoted(line.route) + "," +
                    quoted(line.rule) + "," + date(line.window_start) + ",";
  render::append_decimal(out, line.window, std::chrono::seconds(1));
  for (const std::uint64_t number :
       {line.events, line.units, line.overspent, line.forgiven, line.billed()})
    out += "," + std::to_string(number);
  return out;
}

std::string json_of(const ledger::LedgerLine& line) {
  return Json()
      .text("tenant", printable(line.tenant))
      .text("route", line.route)
      .text("rule", line.rule)
      .text("window_start", date(line.window_start))
      .number("window_ms", static_cast<std::uint64_t>(line.window.count()) / 1'000'000)
      .number("events", line.events)
      .number("units", line.units)
      .number("overspent", line.overspent)
      .number("forgiven", line.forgiven)
      .number("billed", line.billed())
      .done();
}

std::string text_of(const JournalReplay& replay) {
  const ledger::SettlerStatus& status = replay.settled;
  std::string out = counted(status.settled, "event") + " settled";
  if (status.repeated > 0) out += ", " + std::to_string(status.repeated) + " of them repeated";
  if (status.rejected > 0)
    out += ", " + std::to_string(status.rejected) + " put aside (weir journal quarantine says why)";
  if (replay.ended > 0) out += "; " + counted(replay.ended, "reservation") + " ended";
  if (replay.stand > 0)
    out += "; " + counted(replay.stand, "reservation") + (replay.stand == 1 ? " stands" : " stand");
  return out + "\n";
}

std::string json_of(const JournalReplay& replay) {
  return Json()
             .number("settled", replay.settled.settled)
             .number("repeated", replay.settled.repeated)
             .number("quarantined", replay.settled.rejected)
             .number("reservations_ended", replay.ended)
             .number("reservations", replay.stand)
             .done() +
         "\n";
}

}  // namespace weir::cli
