#include "store/redis/error_class.h"

#include <array>
#include <cstddef>

namespace weir::store::redis {
namespace {

using enum ErrorClass;
using enum ErrorAction;
using enum Carried;

// Rows for replies: an upper-case pattern is the code a reply begins with (or that a script's error
// text quotes); any other is a phrase after "ERR". Looked up from the top. Of what a server checks
// while a script runs, memory, disk, replicas and role are looked at before its first write alone.
constexpr ErrorRow kReplies[] = {
    {"NOSCRIPT", noscript, load_script, false, "the script cache was emptied; nothing was executed",
     ""},
    {"MOVED", redirected, follow, false, "another node owns the slot", ""},
    {"ASK", redirected, follow, false, "the slot is being moved", ""},
    {"READONLY", unavailable, resolve_again, true, "a replica: the primary moved",
     "name the primary, or its sentinels"},
    {"LOADING", unavailable, policy, true, "reading its data set after a start",
     "wait until it has read its data"},
    {"MASTERDOWN", unavailable, policy, true, "a replica that lost its primary",
     "name the primary, or its sentinels"},
    {"CLUSTERDOWN", unavailable, policy, true, "the cluster cannot serve the slot",
     "see CLUSTER INFO"},
    {"TRYAGAIN", unavailable, policy, false, "the slot is half moved, also when asked again", ""},
    {"BUSY", unavailable, policy, true, "a foreign script runs; it is not ours to kill",
     "find who runs it; SCRIPT KILL ends one that has written nothing"},
    {"OOM", unavailable, policy, true, "maxmemory reached and nothing may be evicted",
     "raise maxmemory or make room there"},
    {"MISCONF", unavailable, policy, true, "refuses writes because it cannot persist",
     "see in its log why it cannot save, or make room on its disk"},
    {"NOREPLICAS", unavailable, policy, true, "too few replicas for min-replicas-to-write",
     "bring its replicas back, or lower min-replicas-to-write"},
    {"UNBLOCKED", unavailable, resolve_again, true, "the node became a replica", ""},
    {"max number of clients reached", unavailable, reconnect, true, "no connection left for us",
     "raise maxclients, or find who holds them"},
    {"UNKILLABLE", unavailable, policy, true, "a foreign script that wrote cannot be stopped",
     "wait for its end, or restart the server"},
    {"NOAUTH", misconfigured, reload_credentials, true, "a password is needed",
     "give `username` and `password_file`"},
    {"WRONGPASS", misconfigured, reload_credentials, true, "user or password is wrong",
     "compare the user and the password (`password_file`, or the URL) with its ACL"},
    {"invalid password", misconfigured, reload_credentials, true, "the password is wrong",
     "compare what `password_file` holds with its requirepass"},
    {"no password is set", misconfigured, policy, true, "a password was sent and none is set",
     "leave the password out, or set one there"},
    {"without any password", misconfigured, policy, true, "a password was sent and none is set",
     "leave the password out, or set one there"},
    {"NOPERM", misconfigured, policy, true, "the user may not run a command or touch our keys",
     "permit what it names", in_script},
    {"user executing the script", misconfigured, policy, true,
     "as NOPERM: a command or key of a script", "permit what it names", perhaps},
    {"CROSSSLOT", misconfigured, policy, true, "keys of one call in several slots",
     "name a cluster as redis+cluster://", in_script},
    {"unknown command", misconfigured, policy, true, "renamed, disabled, or not Redis",
     "give the command its name back; Redis from version 5 on is needed", in_script},
    {"DENIED", misconfigured, policy, true, "protected mode",
     "set a password there, or bind it to an address"},
    {"DB index", misconfigured, policy, true, "no such database",
     "name a database that it has; a cluster has only 0"},
    {"WRONGTYPE", misconfigured, policy, true, "a foreign value that a script may not replace",
     "use a `prefix` that is nobody else's", in_script},
    {"EXECABORT", misconfigured, policy, true, "a proxy between us changes commands",
     "name the server itself"},
    {"wrong number of arguments", misconfigured, policy, true, "a proxy or a server unlike Redis",
     "name the server itself", in_script},
    {"", unavailable, policy, true, "any other error reply", "see its log", perhaps},
};

struct LocalRow {
  LocalFault fault;
  ErrorRow row;
};

constexpr LocalRow kLocal[] = {
    {LocalFault::refused,
     {"(connection refused)", unreachable, reconnect, true, "nothing listens there",
      "is it up, and is the port right?"}},
    {LocalFault::reset,
     {"(connection reset)", unreachable, reconnect, true, "cut off",
      "see its log; a port for TLS wants rediss://", perhaps}},
    {LocalFault::broken_pipe,
     {"(broken pipe)", unreachable, reconnect, true, "cut off", "see its log", perhaps}},
    {LocalFault::eof,
     {"(end of stream)", unreachable, reconnect, true, "closed by the server",
      "see its log; a port for TLS wants rediss://", perhaps}},
    {LocalFault::dns,
     {"(name not resolved)", unreachable, reconnect, true, "no such name now",
      "is the name right, and does this host resolve it?"}},
    {LocalFault::network,
     {"(network error)", unreachable, reconnect, true, "no way to it",
      "is it up, and can this host reach it?", perhaps}},
    {LocalFault::tls,
     {"(TLS failure)", unreachable, reconnect, true, "no trusted session",
      "compare `tls` with the certificate there; a port without TLS wants redis://", perhaps}},
    {LocalFault::connect_timeout,
     {"(connect timeout)", unreachable, reconnect, true, "no connection within connect_timeout",
      "is it up, can this host reach it, and does it speak TLS where rediss:// says so?"}},
    {LocalFault::handshake_timeout,
     {"(greeting timeout)", unreachable, reconnect, true, "connected, and then silent",
      "is it up, and is it Redis or Valkey?"}},
    {LocalFault::deadline,
     {"(deadline)", unreachable, policy, true, "our own deadline passed without a reply",
      "is it slow, or `deadline` too short for the way there?", perhaps}},
    {LocalFault::hung,
     {"(hung)", unreachable, resolve_again, true, "silent for a multiple of the deadline",
      "is it up, and can this host reach it?", perhaps}},
    {LocalFault::saturated,
     {"(saturated)", unreachable, policy, true, "too many asks in flight already",
      "ask less at once, or add workers"}},
    {LocalFault::not_connected,
     {"(not connected)", unreachable, policy, true, "asks never queue for a connection", ""}},
    {LocalFault::malformed,
     {"(malformed reply)", unavailable, reconnect, true, "nil, wrong type, wrong arity, not RESP",
      "is it Redis or Valkey, without a proxy in front?", perhaps}},
    {LocalFault::replica,
     {"(replica)", unavailable, resolve_again, true, "never decided from a replica",
      "name the primary, or its sentinels", perhaps}},
    {LocalFault::unsuitable,
     {"(self-test failed)", misconfigured, reconnect, true, "it cannot hold counters as it is",
      "see weir lint --connect", perhaps}},
    {LocalFault::redirect,
     {"(redirected)", misconfigured, policy, true, "a cluster behind a single-server URL",
      "name a cluster as redis+cluster://"}},
    {LocalFault::moved,
     {"(primary moved)", unavailable, resolve_again, true, "another server is the primary now", "",
      perhaps}},
    {LocalFault::no_sentinel,
     {"(no sentinel)", unreachable, reconnect, true, "no sentinel says where the primary is",
      "are the sentinels up, and can this host reach them?"}},
    {LocalFault::unknown_master,
     {"(unknown master)", misconfigured, reconnect, true,
      "the sentinels know no master of that name",
      "compare the name in the URL with SENTINEL MASTERS"}},
    {LocalFault::no_slot_map,
     {"(no slot map)", unreachable, reconnect, true, "no node says who owns which slots",
      "are its nodes up, and can this host reach them?"}},
    {LocalFault::no_cluster,
     {"(no cluster)", misconfigured, reconnect, true, "a single server behind a cluster URL",
      "name a server alone as redis://"}},
    {LocalFault::no_master,
     {"(no master)", unavailable, reconnect, true, "no master owns the slot", "see CLUSTER SLOTS"}},
    {LocalFault::not_let_in,
     {"(not let in)", misconfigured, reconnect, true, "no sentinel or node lets us ask for servers",
      "compare user, password and permissions there"}},
    {LocalFault::script_loop,
     {"(script lost again)", unavailable, policy, true, "NOSCRIPT after the script was sent",
      "find who flushes its scripts"}},
    {LocalFault::unsettled,
     {"(clock unsettled)", unavailable, policy, true, "the store's clock moves under each attempt",
      "find what sets its clock"}},
    {LocalFault::released,
     {"(released)", unreachable, policy, false, "the breaker opened while this ask waited", "",
      perhaps}},
    {LocalFault::closing,
     {"(closing)", unreachable, policy, false, "this client shuts down", "", perhaps}},
};

constexpr std::size_t kReplyCount = std::size(kReplies);
constexpr std::size_t kRowCount = kReplyCount + std::size(kLocal);

constexpr std::array<ErrorRow, kRowCount> kTable = [] {
  std::array<ErrorRow, kRowCount> table{};
  std::size_t at = 0;
  for (const LocalRow& local : kLocal) table[at++] = local.row;
  for (const ErrorRow& row : kReplies) table[at++] = row;
  return table;
}();

constexpr bool is_code(std::string_view pattern) {
  for (const char c : pattern) {
    if (c < 'A' || c > 'Z') return false;
  }
  return !pattern.empty();
}

bool begins_with_word(std::string_view text, std::string_view word) {
  return text.starts_with(word) && (text.size() == word.size() || text[word.size()] == ' ');
}

// Before version 7 a script's error text quotes the code: "ERR Error running script (...):
// @user_script:9: -READONLY You can't ...".
bool quotes_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const bool starts = at >= 2 && (text[at - 1] == '-' || text.substr(at - 2, 2) == ": ");
    if (starts && begins_with_word(text.substr(at), word)) return true;
  }
  return false;
}

void pad_to(std::string& out, std::size_t line_start, std::size_t column) {
  while (out.size() - line_start < column) out += ' ';
  out += ' ';
}

}  // namespace

std::string_view to_string(ErrorClass error_class) {
  switch (error_class) {
    case unreachable:
      return "unreachable";
    case unavailable:
      return "unavailable";
    case misconfigured:
      return "misconfigured";
    case redirected:
      return "redirected";
    case noscript:
      return "noscript";
  }
  return "unavailable";
}

std::string_view to_string(ErrorAction action) {
  switch (action) {
    case policy:
      return "policy";
    case reconnect:
      return "policy, reconnect";
    case resolve_again:
      return "policy, resolve again";
    case reload_credentials:
      return "policy, read credentials";
    case follow:
      return "follow";
    case load_script:
      return "load, run again";
  }
  return "policy";
}

std::span<const ErrorRow> error_table() {
  return kTable;
}

const ErrorRow& classify_reply(std::string_view text) {
  const bool generic = begins_with_word(text, "ERR");
  for (const ErrorRow& row : kReplies) {
    if (row.pattern.empty()) return row;
    const bool code = is_code(row.pattern);
    if (code && begins_with_word(text, row.pattern)) return row;
    if (generic && code && quotes_word(text, row.pattern)) return row;
    if (generic && !code && text.find(row.pattern) != std::string_view::npos) return row;
  }
  return kReplies[kReplyCount - 1];
}

const ErrorRow& row_of(LocalFault fault) {
  for (const LocalRow& local : kLocal) {
    if (local.fault == fault) return local.row;
  }
  return kReplies[kReplyCount - 1];
}

// An error that a script came upon names it, by its sum and its line or by the call.
bool may_be_carried_out(std::string_view text) {
  const Carried carried = classify_reply(text).carried;
  if (carried != in_script) return carried == perhaps;
  return text.find("script") != std::string_view::npos;
}

bool is_unserved(std::string_view text) {
  return text.starts_with("CLUSTERDOWN Hash slot not served");
}

std::string told(const ErrorRow& row, std::string_view text) {
  std::string out(row.meaning);
  text = without_arguments(text);
  if (!text.empty()) out.append(": ").append(text);
  if (!row.remedy.empty() && text.find(row.remedy) == std::string_view::npos) {
    out.append("; ").append(row.remedy);
  }
  return out;
}

std::string_view without_arguments(std::string_view text) {
  return text.substr(0, text.find(", with args beginning with"));
}

std::string error_table_text() {
  constexpr std::size_t kColumns[] = {31, 45, 70, 76, 88};
  std::string out;
  const auto line = [&out, &kColumns](std::string_view a, std::string_view b, std::string_view c,
                                      std::string_view d, std::string_view e, std::string_view f) {
    const std::size_t start = out.size();
    out.append(a);
    pad_to(out, start, kColumns[0]);
    out.append(b);
    pad_to(out, start, kColumns[1]);
    out.append(c);
    pad_to(out, start, kColumns[2]);
    out.append(d);
    pad_to(out, start, kColumns[3]);
    out.append(e);
    pad_to(out, start, kColumns[4]);
    out.append(f);
    out += '\n';
  };
  line("what the store says", "class", "what follows", "votes", "carried out", "meaning");
  for (const ErrorRow& row : kTable) {
    line(row.pattern.empty() ? "(anything else)" : row.pattern, to_string(row.error_class),
         to_string(row.action), row.votes ? "yes" : "no", row.carried == no ? "no" : "perhaps",
         told(row, {}));
  }
  return out;
}

}  // namespace weir::store::redis
