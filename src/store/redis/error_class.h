#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weir::store::redis {

// What kind of trouble a store is in, chosen by what follows from it.
enum class ErrorClass : std::uint8_t {
  unreachable,    // no answer came: the network, or our own deadline
  unavailable,    // it answered that it cannot, or with nonsense
  misconfigured,  // it will not until somebody changes something; said loudly
  redirected,     // another node owns the key
  noscript,       // the script is not loaded; nothing was executed
};

enum class ErrorAction : std::uint8_t {
  policy,              // the route's failure policy decides this request; the connection stays
  reconnect,           // as policy, and the connection is replaced, with jittered backoff
  resolve_again,       // as reconnect, at once: another node may be the primary now
  reload_credentials,  // as policy; the password file is read again and AUTH repeated once
  follow,              // ask the node that was named
  load_script,         // send the script itself, within the same deadline
};

// Whether a command that is answered so may have been carried out all the same, or in part. What
// was not is asked again where it is right whenever it is done, as giving back is.
enum class Carried : std::uint8_t {
  no,         // a server says so before it runs anything
  in_script,  // nor then, unless it is a script's own error, which may come after its first write
  perhaps,
};

std::string_view to_string(ErrorClass error_class);
std::string_view to_string(ErrorAction action);

// What went wrong on our side of the wire, where no error reply says it.
enum class LocalFault : std::uint8_t {
  refused,
  reset,
  broken_pipe,
  eof,
  dns,
  network,  // any other error of a socket
  tls,
  connect_timeout,
  handshake_timeout,
  deadline,        // our own deadline passed without a reply
  hung,            // nothing came for a multiple of the deadline
  saturated,       // the bound of asks in flight is reached
  not_connected,   // no connection stands; none is waited for
  malformed,       // not RESP, or not the reply this ask must have: nil, wrong type, wrong arity
  replica,         // the server says that it is one
  unsuitable,      // its self-test failed
  redirect,        // MOVED or ASK where the URL names a single server
  script_loop,     // the script is gone again after it was loaded for this very ask
  moved,           // another server is the primary now
  no_sentinel,     // no sentinel could be asked
  unknown_master,  // those that could be know no master of that name
  no_slot_map,     // no node of a cluster says who owns which slots
  no_cluster,      // they are nodes of no cluster
  no_master,       // nobody owns the slot
  not_let_in,      // no sentinel, or no node, lets us ask: a password, or a permission
  unsettled,       // the store's clock moved under every attempt that the deadline allowed
  released,        // the breaker opened while this ask waited
  closing,         // the client is being shut down
};

// One row of the table that every failure of a store is looked up in.
struct ErrorRow {
  std::string_view pattern;  // the error code a reply begins with, a phrase in it, or a local fault
  ErrorClass error_class;
  ErrorAction action;
  bool votes;  // counts as a failure of the store in its breaker
  std::string_view meaning;
  std::string_view remedy;  // what to do about it; empty: nothing
  Carried carried = Carried::no;
};

// The whole table, in the order in which `weir explain --errors` prints it.
std::span<const ErrorRow> error_table();

// The row for an error reply, without its leading '-'. Codes inside a script's error text count
// too. An unknown text is its own row: unavailable, and it votes.
//
// Guarantees:  the row lives as long as the process.
const ErrorRow& classify_reply(std::string_view text);
// Whether a node of a cluster says that nobody has the slot. So does, until the next word of the
// new master, one that just handed over to it and then heard an older word of it: it forgets whose
// the slots are.
bool is_unserved(std::string_view text);
// Whether the command that an error reply answers may have been carried out, or some of it.
bool may_be_carried_out(std::string_view text);
const ErrorRow& row_of(LocalFault fault);

// What went wrong as one line for people: what it means, what the store said, what to do. The text
// is used as it is where it says what to do itself.
//
// Guarantees:  holds nothing that this side sent: see without_arguments().
std::string told(const ErrorRow& row, std::string_view text);

// What a server said, without what it repeats of a command: one whose AUTH was renamed answers with
// the password it was sent.
std::string_view without_arguments(std::string_view text);

// The table for people, one row a line, with a heading.
std::string error_table_text();

}  // namespace weir::store::redis
