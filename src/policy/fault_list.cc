#include "policy/fault_list.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

#include "policy/store_url.h"
#include "policy/yaml.h"

namespace weir {

std::string Fault::text() const {
  std::string out = file;
  if (line > 0) out += ":" + std::to_string(line) + ":" + std::to_string(column);
  out += ": ";
  if (warning) out += "warning: ";
  if (!field.empty()) out += field + ": ";
  if (!value.empty()) out += "'" + value + "' ";
  out += problem;
  if (!allowed.empty()) out += "; allowed: " + allowed;
  return out;
}

}  // namespace weir

namespace weir::policy {

void FaultList::push(Fault fault) {
  if (++(fault.warning ? warnings_ : count_) > kMaxFaults)
    ++left_out_;
  else
    faults_.push_back(std::move(fault));
}

void FaultList::add(const YamlNode& at, std::string_view field, std::string problem,
                    std::string allowed) {
  add(at.line, at.column, field, at.is_scalar() ? std::string_view(at.text) : "",
      std::move(problem), std::move(allowed));
}

void FaultList::add_silent(const YamlNode& at, std::string_view field, std::string problem,
                           std::string allowed) {
  add(at.line, at.column, field, "", std::move(problem), std::move(allowed));
}

void FaultList::add(int line, int column, std::string_view field, std::string_view value,
                    std::string problem, std::string allowed) {
  push(Fault{.file = file_,
             .line = line,
             .column = column,
             .field = std::string(field),
             .value = shown(value),
             .problem = std::move(problem),
             .allowed = std::move(allowed)});
}

void FaultList::warn(const YamlNode& at, std::string_view field, std::string problem,
                     std::string allowed) {
  warn(at.line, at.column, field, std::move(problem), std::move(allowed));
}

void FaultList::warn(int line, int column, std::string_view field, std::string problem,
                     std::string allowed) {
  push(Fault{.file = file_,
             .line = line,
             .column = column,
             .field = std::string(field),
             .value = {},
             .problem = std::move(problem),
             .allowed = std::move(allowed),
             .warning = true});
}

std::vector<Fault> FaultList::sorted() const {
  std::vector<Fault> out = faults_;
  std::stable_sort(out.begin(), out.end(), [](const Fault& a, const Fault& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  });
  if (left_out_ > 0)
    out.push_back(Fault{.file = file_,
                        .problem = "and " + std::to_string(left_out_) + " more of them",
                        .warning = !failed()});
  return out;
}

std::string text_of(const std::vector<Fault>& faults) {
  std::string out;
  for (const Fault& fault : faults) {
    if (fault.warning) continue;
    if (!out.empty()) out += '\n';
    out += fault.text();
  }
  return out;
}

std::string shown(std::string_view value) {
  constexpr std::size_t kMost = 60;
  constexpr std::string_view kHex = "0123456789abcdef";
  const std::string safe = redacted(value);
  std::string out;
  for (const char c : safe) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
    if (out.size() < kMost) continue;
    while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xc0) == 0x80) out.pop_back();
    if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0xc0) out.pop_back();
    return out + "...";
  }
  return out;
}

namespace {

// Edits that turn one word into the other: insertions, deletions, changes, and swaps of neighbours.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::vector<std::size_t> next(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    next[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      next[j + 1] = std::min({row[j + 1] + 1, next[j] + 1, row[j] + (a[i] == b[j] ? 0 : 1)});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j])
        next[j + 1] = std::min(next[j + 1], before[j - 1] + 1);
    }
    before = row;
    row = next;
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view given, const std::vector<std::string_view>& known) {
  if (given.size() > 40) return {};
  std::string_view best;
  std::size_t fewest = 3;
  for (const std::string_view word : known) {
    const std::size_t patience =
        std::max<std::size_t>(1, std::min<std::size_t>(2, word.size() / 3));
    const std::size_t apart =
        std::max(given.size(), word.size()) - std::min(given.size(), word.size());
    if (apart > patience) continue;
    const std::size_t count = edits(given, word);
    if (count <= patience && count < fewest) {
      fewest = count;
      best = word;
    }
  }
  return best;
}

std::string one_of(const std::vector<std::string_view>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += words[i];
  }
  return out;
}

}  // namespace weir::policy
