#include "drill/target/conduct.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "drill/run/in_words.h"

namespace weir::drill {
namespace {

using namespace std::chrono_literals;

// A conduct is that of a phase where so many in a hundred of its calls went so.
constexpr std::uint64_t kMost = 60;
// What is slower than this beyond the usual is worth a word.
constexpr Nanos kNoticeable = 40ms;

struct Share {
  Conduct conduct;
  std::uint64_t count;
};

std::array<Share, 7> shares_of(const Tally& tally) {
  return {Share{Conduct::admits, tally.allowed},   Share{Conduct::closed, tally.refused},
          Share{Conduct::as_limit, tally.limited}, Share{Conduct::errors, tally.errors},
          Share{Conduct::other, tally.other},      Share{Conduct::hangs, tally.timed_out},
          Share{Conduct::cut, tally.cut}};
}

// The commonest status from `least` to `most`, for the words.
std::string commonest(const Tally& tally, int least, int most) {
  std::pair<int, std::uint64_t> found{least, 0};
  for (const auto& [status, count] : tally.statuses) {
    if (status >= least && status <= most && status != 503 && status != 429 &&
        count > found.second) {
      found = {status, count};
    }
  }
  return std::to_string(found.first);
}

// To two digits or the millisecond, as one speaks of it.
std::string spoken(Nanos time) {
  if (time >= 1s) return in_words(std::chrono::round<std::chrono::milliseconds>(time) / 100 * 100);
  return in_words(std::max<Nanos>(std::chrono::round<std::chrono::milliseconds>(time), 1ms));
}

std::string after(const PhaseSeen& seen, Nanos typical) {
  const bool slow = typical > seen.calm.latency.quantile(0.5) + kNoticeable;
  return slow ? " after " + spoken(typical) + " a request" : std::string(" at once");
}

// The rest, where it is more than a stray call.
std::string besides(const Tally& tally, Conduct main) {
  std::string out;
  for (const Share& each : shares_of(tally)) {
    if (each.conduct == main || each.count * 20 < tally.calls) continue;
    const std::string percent = std::to_string(each.count * 100 / tally.calls) + " % ";
    const char* what = "";
    switch (each.conduct) {
      case Conduct::admits:
        what = "allowed";
        break;
      case Conduct::closed:
        what = "503";
        break;
      case Conduct::as_limit:
        what = "429";
        break;
      case Conduct::hangs:
        what = "no answer";
        break;
      case Conduct::cut:
        what = "connection refused or cut";
        break;
      default:
        break;
    }
    const std::string name = each.conduct == Conduct::errors  ? commonest(tally, 500, 599)
                             : each.conduct == Conduct::other ? commonest(tally, 100, 499)
                                                              : what;
    out += (out.empty() ? "" : ", ") + percent + name;
  }
  return out;
}

// Of calls that pass: whether those pass, too, that should not.
void look_at_hostile(const PhaseSeen& seen, const StatedLimit& limit, Judgement& judged) {
  const std::uint64_t most = limit.most_in(seen.length);
  const std::string of = std::to_string(seen.hostile.allowed) + " of " +
                         std::to_string(seen.hostile.calls) + " calls of one key passed";
  const std::string slowly = after(seen, judged.typical);
  const bool slow = slowly != " at once";
  if (seen.hostile.allowed > most && !seen.is_calm && !seen.limit_seen) {
    judged.conduct = Conduct::admits;
    judged.words = "lets callers in" + slowly + ", as it did before: " + of +
                   ", and no limit was seen even while the store answered";
  } else if (seen.hostile.allowed > most) {
    judged.conduct = Conduct::open;
    judged.words = seen.is_calm ? "does not limit: " + of + ", where the limit is " +
                                      std::to_string(limit.units) + " in " + in_words(limit.period)
                                : "fails open" + slowly + ": " + of;
  } else if (seen.hostile.calls <= most || seen.hostile.allowed == seen.hostile.calls) {
    judged.conduct = Conduct::admits;
    judged.words = "lets callers in" + slowly + "; whether it limits could not be seen: " + of +
                   ", and the limit lets " + std::to_string(most) + " pass in that time";
  } else {
    judged.conduct = Conduct::limits;
    if (seen.is_calm) {
      judged.words = "limits: " + of;
    } else if (seen.store_gone && slow && judged.typical * 2 >= seen.length) {
      // Whoever waited so long was answered by a store that was back.
      judged.conduct = Conduct::hangs;
      judged.words =
          "waits for the store to come back, " + spoken(judged.typical) + " a request: " + of;
    } else if (seen.store_gone) {
      judged.words = "keeps limiting without the store" + (slow ? slowly : "") + ": " + of;
    } else {
      judged.words = slow ? "limits, but" + slowly + ": " + of : "never noticed: " + of;
    }
  }
}

}  // namespace

std::uint64_t StatedLimit::most_in(Nanos time) const noexcept {
  const auto touched = static_cast<std::uint64_t>(time / period) + 2;
  return units * touched;
}

std::string_view to_string(Conduct conduct) {
  switch (conduct) {
    case Conduct::limits:
      return "limits";
    case Conduct::open:
      return "open";
    case Conduct::admits:
      return "admits";
    case Conduct::closed:
      return "closed";
    case Conduct::as_limit:
      return "as_limit";
    case Conduct::errors:
      return "errors";
    case Conduct::other:
      return "other";
    case Conduct::hangs:
      return "hangs";
    case Conduct::cut:
      return "cut";
    case Conduct::mixed:
      return "mixed";
  }
  return "";
}

Judgement judge(const PhaseSeen& seen, const StatedLimit& limit) {
  Judgement judged;
  const Tally& steady = seen.steady;
  if (steady.calls == 0) {
    judged.words = "nobody asked";
    return judged;
  }
  judged.typical = steady.latency.quantile(0.5);
  const auto shares = shares_of(steady);
  const auto main =
      std::max_element(shares.begin(), shares.end(),
                       [](const Share& a, const Share& b) { return a.count < b.count; });
  if (main->count * 100 < steady.calls * kMost) {
    judged.words = "is of two minds: " + besides(steady, Conduct::mixed);
    return judged;
  }
  judged.conduct = main->conduct;
  const std::string late = after(seen, judged.typical);
  switch (main->conduct) {
    case Conduct::admits:
      look_at_hostile(seen, limit, judged);
      break;
    case Conduct::closed:
      judged.words = "fails closed, with 503," + late;
      break;
    case Conduct::as_limit:
      judged.words =
          "fails closed" + late + ", and calls it 429: as if callers had asked too often";
      break;
    case Conduct::errors:
      judged.words = "turns into " + commonest(steady, 500, 599) + "s" + late;
      break;
    case Conduct::other:
      judged.words = "answers " + commonest(steady, 100, 499) + late;
      break;
    case Conduct::hangs:
      judged.words = "hangs: no answer within " + spoken(judged.typical);
      break;
    default:
      judged.words = "takes no calls: connections are refused or cut";
  }
  if (const std::string rest = besides(steady, main->conduct); !rest.empty()) {
    judged.words += " (besides: " + rest + ")";
  }
  return judged;
}

}  // namespace weir::drill
