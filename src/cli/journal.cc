#include "cli/journal.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <thread>

#include "cli/journal_text.h"
#include "cli/number.h"
#include "cli/open_policy.h"
#include "cli/progress.h"
#include "guard/reservation_book.h"
#include "ledger/journal.h"
#include "ledger/journal_reader.h"
#include "ledger/ledger.h"
#include "ledger/settler.h"
#include "policy/model.h"

namespace weir::cli {
namespace {

using ledger::Journal;
using ledger::JournalReader;
using ledger::Ledger;

constexpr std::uint64_t kLines = 50;

struct Place {
  std::string folder;
  std::string ledger;
};

// Where the journal and its ledger are; absent where that was said to be wrong.
std::optional<Place> find(Environment& environment, const JournalCommand& command, ExitCode& code) {
  Place place{.folder = command.where, .ledger = command.ledger};
  std::error_code ignored;
  if (!std::filesystem::is_directory(command.where, ignored) ||
      std::filesystem::exists(command.where + "/weir.yaml", ignored)) {
    const auto policy = open_policy(environment, command.where, "memory:", code);
    if (!policy) return std::nullopt;
    const auto& journal = policy->model().journal;
    if (!journal) {
      code = fail(environment, ExitCode::usage,
                  command.where + " names no journal; name the journal's folder");
      return std::nullopt;
    }
    place.folder = journal->folder;
    if (place.ledger.empty()) place.ledger = journal->ledger;
  }
  if (place.ledger.empty()) place.ledger = "sqlite:" + place.folder + "/ledger.db";
  if (auto fits = ledger::check_ledger_url(place.ledger); !fits) {
    code = fail(environment, ExitCode::usage, fits.error().message);
    return std::nullopt;
  }
  const std::string file = Journal::file_in(place.folder).path;
  // A journal that is gone from beside its mark is a fault, not a place without one.
  if (!std::filesystem::exists(file, ignored) &&
      !std::filesystem::exists(ledger::JournalMark::path_of(file), ignored)) {
    code = fail(environment, ExitCode::usage,
                place.folder + " holds no journal; `weir serve` makes one where the policy says");
    return std::nullopt;
  }
  return place;
}

ExitCode unreadable(Environment& environment, const Error& error) {
  return fail(environment, ExitCode::undecided, error.message);
}

Result<JournalReader> open_reader(const Place& place) {
  auto reader = JournalReader::open(Journal::file_in(place.folder));
  if (!reader) return reader.error();
  if (auto whole = reader->whole(); !whole) return whole.error();
  return reader;
}

ExitCode status(Environment& environment, const JournalCommand& command, const Place& place) {
  auto reader = open_reader(place);
  if (!reader) return unreadable(environment, reader.error());
  const auto counts = reader->counts();
  if (!counts) return unreadable(environment, counts.error());
  const auto name = reader->id();
  if (!name) return unreadable(environment, name.error());
  JournalOverview overview{.folder = place.folder,
                           .counts = *counts,
                           .file_bytes = ledger::bytes_on_disk(Journal::file_in(place.folder).path),
                           .now = Clock::real().now()};
  if (counts->standing_bytes > 0) {
    const auto read = reader->notes([&](const ledger::Note& note) {
      if (note.id.starts_with('r') && note.until == ledger::kStands) ++overview.reservations;
    });
    if (!read) return unreadable(environment, read.error());
  }
  std::optional<Error> fault;
  if (auto ledger = ledger::look_into_ledger(place.ledger); !ledger) {
    fault = ledger.error();
  } else if (auto balance = (*ledger)->journal(*name); !balance) {
    fault = balance.error();
  } else {
    overview.balance = *balance;
  }
  if (fault) overview.ledger_fault = fault->message;
  environment.out << (command.json ? json_of(overview) : text_of(overview));
  // A ledger that nothing was settled into yet may well be missing.
  if (!fault || (fault->code == ErrorCode::not_found && counts->settled_upto == 0))
    return ExitCode::as_asked;
  return unreadable(environment, *fault);
}

// A list that ends early says so: to people alone.
void say_more(Environment& environment, const JournalCommand& command, std::uint64_t whole,
              std::size_t shown) {
  if (command.json || whole <= shown) return;
  environment.err << "weir: " << whole - shown << " more are not shown; --most N shows so many\n";
}

ExitCode list(Environment& environment, const JournalCommand& command, const Place& place,
              std::uint64_t most) {
  auto reader = open_reader(place);
  if (!reader) return unreadable(environment, reader.error());
  const auto events = reader->events(0, ~std::uint64_t{0} >> 1, most);
  if (!events) return unreadable(environment, events.error());
  for (const ledger::StoredEvent& event : *events)
    environment.out << (command.json ? json_of(event) : text_of(event)) << '\n';
  if (const auto counts = reader->counts())
    say_more(environment, command, counts->unsettled, events->size());
  return ExitCode::as_asked;
}

ExitCode quarantine(Environment& environment, const JournalCommand& command, const Place& place,
                    std::uint64_t most) {
  auto reader = open_reader(place);
  if (!reader) return unreadable(environment, reader.error());
  const auto aside = reader->quarantine(0, most);
  if (!aside) return unreadable(environment, aside.error());
  for (const ledger::QuarantinedEvent& each : *aside)
    environment.out << (command.json ? json_of(each) : text_of(each)) << '\n';
  if (const auto counts = reader->counts())
    say_more(environment, command, counts->quarantined, aside->size());
  return ExitCode::as_asked;
}

Result<void> verified(Environment& environment, JournalReader& reader) {
  const auto counts = reader.counts();
  if (!counts) return counts.error();
  Progress progress(environment.err, "events", counts->unsettled);
  return reader.verify([&](std::uint64_t seen) { progress.at(seen); });
}

// Calls `each` for every line of the ledger, as long as it says true; `silent`: it prints nothing.
Result<void> each_line(Environment& environment, Ledger& ledger, bool silent,
                       const std::function<bool(const ledger::LedgerLine&)>& each) {
  const auto whole = ledger.count_lines();
  if (!whole) return whole.error();
  Progress progress(environment.err, "lines", *whole, silent);
  std::uint64_t seen = 0;
  return ledger.lines([&](const ledger::LedgerLine& line) {
    progress.at(++seen);
    return each(line);
  });
}

// Journal and ledger of one moment, though both move on: two looks at the ledger that agree, with
// one at the journal between them.
ExitCode verify(Environment& environment, const JournalCommand& command, const Place& place) {
  auto reader = JournalReader::open(Journal::file_in(place.folder));
  if (!reader) return unreadable(environment, reader.error());
  const auto name = reader->id();
  if (!name) return unreadable(environment, name.error());
  auto ledger = ledger::look_into_ledger(place.ledger);
  if (!ledger) return unreadable(environment, ledger.error());
  JournalAudit audit{.folder = place.folder};
  if (auto whole = reader->whole(); !whole) audit.faults.push_back(whole.error().message);
  if (auto sound = verified(environment, *reader); !sound)
    audit.faults.push_back(sound.error().message);
  if (auto sound = (*ledger)->verify(); !sound) audit.faults.push_back(sound.error().message);
  for (int look = 0; look < 20; ++look) {
    const auto before = (*ledger)->journal(*name);
    if (!before) return unreadable(environment, before.error());
    const auto counts = reader->counts();
    if (!counts) return unreadable(environment, counts.error());
    const auto after = (*ledger)->journal(*name);
    if (!after) return unreadable(environment, after.error());
    audit.counts = *counts;
    audit.balance = *after;
    if (before->last == after->last) break;
  }
  audit.judge();
  auto added = each_line(environment, **ledger, true, [&](const ledger::LedgerLine& line) {
    audit.add(line);
    return true;
  });
  if (!added) return unreadable(environment, added.error());
  environment.out << (command.json ? json_of(audit) : text_of(audit));
  return audit.faults.empty() ? ExitCode::as_asked : ExitCode::answered_no;
}

ExitCode export_lines(Environment& environment, const JournalCommand& command, const Place& place) {
  auto ledger = ledger::look_into_ledger(place.ledger);
  if (!ledger) return unreadable(environment, ledger.error());
  if (!command.json) environment.out << csv_heading();
  auto done = each_line(environment, **ledger, false, [&](const ledger::LedgerLine& line) {
    environment.out << (command.json ? json_of(line) : csv_of(line)) << '\n';
    return static_cast<bool>(environment.out);
  });
  if (!done) return unreadable(environment, done.error());
  return ExitCode::as_asked;
}

// What the worker reserved that does not run: it ends as it was told to, once its time is over. Its
// limits get nothing back: no store is asked here.
class LeftReservations {
 public:
  LeftReservations() {
    using Book = guard::ReservationBook;
    book_.be_driven(0);
    book_.start({.give_back = [](const std::string&, const guard::HeldReservation&, std::uint64_t,
                                 const auto& done) { done(Book::GivenBack::yes); },
                 // What no limit could be asked for is nobody's overspend.
                 .take = [](const guard::HeldReservation&, std::uint64_t units,
                            const auto& done) { done({.units = units}); }});
  }
  Result<std::unique_ptr<Journal>> open(const std::string& folder) {
    return Journal::open({.folder = folder, .meet = [this](ledger::JournalFile& file) {
                            return file.read_notes([this](const ledger::Note& note) {
                              if (note.id.starts_with('r')) (void)book_.restore(note);
                            });
                          }});
  }
  void keep_in(Journal& journal) {
    book_.keep_in(journal);
    before_ = book_.size();
  }
  // Ends what is over; false: the disk has not taken it yet.
  bool end() {
    (void)book_.turn();
    return book_.overdue() == 0;
  }
  std::uint64_t ended() const { return before_ - book_.size(); }
  std::uint64_t stand() const { return book_.size(); }

 private:
  guard::ReservationBook book_{Clock::real()};
  std::size_t before_ = 0;
};

ExitCode replay(Environment& environment, const JournalCommand& command, const Place& place) {
  LeftReservations reservations;
  auto opened = reservations.open(place.folder);
  if (!opened) return fail(environment, ExitCode::usage, opened.error().message);
  if (command.quarantined) {
    // Under the journal's lock, before it begins: it has the file to itself.
    opened->reset();
    auto lock = ledger::FolderLock::take(place.folder);
    if (!lock) return fail(environment, ExitCode::usage, lock.error().message);
    auto file = ledger::JournalFile::open(Journal::file_in(place.folder));
    if (!file) return unreadable(environment, file.error());
    if (auto released = file->release_quarantine(); !released)
      return unreadable(environment, released.error());
  }
  if (!*opened) {
    opened = reservations.open(place.folder);
    if (!opened) return fail(environment, ExitCode::usage, opened.error().message);
  }
  Journal& journal = **opened;
  if (!journal.writable()) return unreadable(environment, {.message = journal.status().why});
  reservations.keep_in(journal);
  const std::uint64_t whole = journal.status().counts.unsettled;
  ledger::Settler settler(journal, [&place] { return ledger::open_ledger(place.ledger); },
                          Clock::real(), {.accept_loss = command.accept_loss});
  Progress progress(environment.err, "events", whole);
  for (;;) {
    const bool ended = reservations.end();
    const ledger::JournalStatus now = journal.status();
    const ledger::SettlerStatus settling = settler.status();
    progress.at(whole - std::min(whole, now.counts.unsettled));
    if (ended && now.counts.unsettled == 0) {
      const JournalReplay done{settling, reservations.ended(), reservations.stand()};
      environment.out << (command.json ? json_of(done) : text_of(done));
      return settling.rejected > 0 ? ExitCode::answered_no : ExitCode::as_asked;
    }
    const std::string why = !now.writable ? now.why : settling.working ? "" : settling.why;
    // Once is a hiccup: a ledger that is starting, a lock that somebody holds for a moment.
    if (!why.empty() && std::max(settling.failing_for, now.failing_for) > std::chrono::seconds(3))
      return fail(environment, ExitCode::undecided, why);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

ExitCode journal(Environment& environment, const JournalCommand& command) {
  if (std::find(std::begin(kJournalActions), std::end(kJournalActions), command.action) ==
      std::end(kJournalActions)) {
    return fail(environment, ExitCode::usage,
                "there is no 'journal " + command.action +
                    "'; there is status, list, quarantine, verify, export and replay");
  }
  if (command.quarantined && command.action != "replay")
    return fail(environment, ExitCode::usage, "--quarantined goes with replay");
  if (command.accept_loss && command.action != "replay")
    return fail(environment, ExitCode::usage, "--accept-loss goes with replay");
  const auto most = command.most.empty() ? kLines : parse_number(command.most);
  if (!most || *most == 0 || *most > 1'000'000)
    return fail(environment, ExitCode::usage,
                "--most " + command.most + " is no number of lines; allowed: 1 to 1000000");
  ExitCode code = ExitCode::as_asked;
  const auto place = find(environment, command, code);
  if (!place) return code;
  if (command.action == "status") return status(environment, command, *place);
  if (command.action == "list") return list(environment, command, *place, *most);
  if (command.action == "quarantine") return quarantine(environment, command, *place, *most);
  if (command.action == "verify") return verify(environment, command, *place);
  if (command.action == "export") return export_lines(environment, command, *place);
  return replay(environment, command, *place);
}

}  // namespace weir::cli
